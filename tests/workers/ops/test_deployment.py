"""The processes of one computer start together, and none outlives its owner."""

from __future__ import annotations

import ast
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.exceptions import AuthenticationError
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.config import Settings
from interlock.workers.engine.system import System
from interlock.workers.gateways.server import EmbeddedServer, PortTakenError, free_port
from interlock.workers.ops import deployment
from interlock.workers.ops.deployment import Deployment, DeploymentError
from interlock.workers.ops.home import HomeTakenError
from interlock.workers.ops.part import Part, last_line
from interlock.workers.ops.ports import read_ports
from interlock.workers.processes.module_server import ModuleServer
from tests.known_systems import know_only_ours, settings_with
from tests.processes import is_alive, processes
from tests.servers import STORE_START_S
from tests.waiting import until

WORDS = "x ready. Sending due task sweep. Application startup complete."
READY = f"import time; print('{WORDS}', flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def slow_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the store of a deployment as much time to start as a slow computer needs."""
    defaults = EmbeddedServer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "start_s", STORE_START_S)


def settings_in(folder: Path, **options: Any) -> Settings:
    """Return settings whose home is a folder of the test."""
    return settings_with(home=folder / "home", **options)


def replace_celery(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let every process of a deployment run this script instead of Celery or Interlock.

    Returns the ids of the processes, a list that grows when one is started.
    """
    (folder / "instead.py").write_text(script)
    # The server of modules finds the script in its folder.
    monkeypatch.chdir(folder)
    monkeypatch.setattr(deployment, "IMPORTS", ())
    start, started = ModuleServer.start, list[int]()

    def start_instead(
        server: ModuleServer,
        module: str,
        arguments: list[str],
        environment: Any,
        output: Path,
        listener: Any,
    ) -> int:
        words = [output.stem, module, *arguments]
        started.append(start(server, "instead", words, environment, output, listener))
        return started[-1]

    monkeypatch.setattr(ModuleServer, "start", start_instead)
    return started


def test_a_process_that_ends_at_its_start_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, "raise SystemExit('no')", monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with pytest.raises(DeploymentError, match=r"ended at its start: no \(the end of .*\.log\)"):
        Deployment(settings_in(tmp_path, store_url=url), pages=False).__enter__()


def test_a_deployment_that_is_not_ready_in_time_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = replace_celery(tmp_path, "import time; time.sleep(600)", monkeypatch)
    monkeypatch.setattr(deployment, "READY_S", 0.5)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with pytest.raises(DeploymentError, match="is not ready after"):
        Deployment(settings_in(tmp_path, store_url=url), pages=False).__enter__()

    assert started
    until(lambda: not any(map(is_alive, started)), what="every process is gone")


def test_a_home_that_cannot_be_made_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    below = tmp_path / "home" / "sub"

    with pytest.raises(DeploymentError, match=f"Not a directory: {below} cannot be written$"):
        Deployment(Settings(home=below), pages=False).__enter__()


def test_a_deployment_on_a_given_store_starts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with Deployment(settings_in(tmp_path, store_url=url), pages=False) as started:
        assert started.settings.store_url == url
        assert started.dead() is None
        assert not (started.home / "store").exists()
        assert {file.name for file in (started.home / "log").glob("*.log")} == {
            "worker.log",
            "sweeps.log",
            "intake.log",
            "beat.log",
        }


def test_the_folders_of_its_systems_are_removed_by_a_command_that_does_not_know_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "home"))
    know_only_ours(monkeypatch, mine=System(name="mine", folders=("mine",)))
    with Deployment(settings_in(tmp_path, store_url=url), pages=False) as started:
        (started.home / "mine").mkdir()

    know_only_ours(monkeypatch)
    ended = CliRunner().invoke(app, ("remove", "--yes"))

    assert ended.output.endswith("removed\n"), ended.output
    assert not (tmp_path / "home").exists()


def test_a_deployment_is_not_up_before_beat_has_sent_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import pathlib, sys, time\n"
        "print('x ready.', flush=True)\n"
        "may_send = pathlib.Path(__file__).with_name('may_send')\n"
        "while sys.argv[1] == 'beat' and not may_send.exists():\n"
        "    time.sleep(0.01)\n"
        "print('Sending due task sweep.', flush=True)\n"
        "time.sleep(600)\n"
    )
    replace_celery(tmp_path, script, monkeypatch)
    url = f"redis://127.0.0.1:{free_port()}/0"
    starting = Deployment(settings_in(tmp_path, store_url=url), pages=False)

    def all_ready() -> bool:
        logs = list((starting.home / "log").glob("*.log"))
        return len(logs) == 4 and all("ready." in log.read_text() for log in logs)

    with ThreadPoolExecutor(1) as thread:
        started = thread.submit(starting.__enter__)
        until(all_ready, what="every process has begun")
        # Long enough for several looks; a slower computer cannot make this fail.
        is_up_early = bool(wait([started], timeout=0.5).done)
        (tmp_path / "may_send").touch()
        started.result(60).__exit__(None, None, None)

    assert not is_up_early


def test_a_process_that_has_ended_is_named_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import pathlib, sys, time\n"
        "print('x ready. Sending due task sweep.', flush=True)\n"
        "ended = pathlib.Path(__file__).with_name('ended')\n"
        "if sys.argv[1] == 'beat' and not ended.exists():\n"
        "    ended.touch()\n"
        "    sys.exit('interlock: the clock is gone')\n"
        "time.sleep(600)\n"
    )
    replace_celery(tmp_path, script, monkeypatch)
    monkeypatch.setattr(deployment.Deployment, "dead", lambda _: None)
    url = f"redis://127.0.0.1:{free_port()}/0"

    with Deployment(settings_in(tmp_path, store_url=url), pages=False) as started:
        notices = until(lambda: list(started.revive()), what="its end is seen")
        what, said = "it is started again in 1 s", "the last line of its log: the clock is gone"
        assert notices == [f"beat ended with exit code 1; {what}; {said}"]

        def runs_again() -> bool:
            assert list(started.revive()) == []
            return started.log("beat").read_text().count("x ready.") == 2

        until(runs_again, what="it is started again")


def test_the_pause_before_a_process_is_started_again_grows_until_it_has_run_for_long(
    tmp_path: Path,
) -> None:
    starts: list[float] = []
    part = Part("beat", tmp_path / "beat.log", lambda: starts.append(now_s), lambda: -9)
    for _ in range(8):
        now_s = part.due_at_s or 0.0
        part.revive(now_s)
        part.revive(now_s)
    part.started_at_s = now_s - 61.0

    notice = part.revive(part.due_at_s or 0.0) or part.revive(now_s + 1_000)

    assert starts[:7] == [1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0]
    assert notice is not None
    assert "exit code -9 (SIGKILL)" in notice


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["INFO:     Started", "ERROR:    [Errno 98] in use", "INFO:     Ended"],
            "[Errno 98] in use",
        ),
        (["[tasks]", "[2026: INFO/MainProcess] Task x received"], "Task x received"),
        (["ERROR:    earlier", "begun", "INFO:     Ended"], "Ended"),
    ],
)
def test_the_error_of_a_process_is_said_where_it_has_only_ended_in_order_since(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    log = tmp_path / "api.log"
    log.write_text("\n".join(lines))

    assert last_line(log).endswith(said)


def test_a_full_disk_is_named_where_a_process_ends() -> None:
    part = Part("worker", Path("/dev/full"), lambda: None, lambda: 1)

    notice = part.revive(0.0)

    assert notice is not None
    assert "No space left on device: /dev/full cannot be written" in notice


def test_a_second_deployment_in_one_home_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)

    with Deployment(settings_in(tmp_path), pages=True, api_port=free_port()) as first:
        logs = first.home / "log"
        until(lambda: all(contents(logs).values()), what="each part has written its line")
        before = contents(first.home)
        with pytest.raises(HomeTakenError, match=f"process {os.getpid()} runs Interlock in .*home"):
            Deployment(settings_in(tmp_path), pages=True, api_port=free_port()).__enter__()

        assert contents(first.home) == before
        assert first.dead() is None


def contents(home: Path) -> dict[Path, bytes]:
    """Return all files of a home."""
    return {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}


def test_the_ports_stay_from_start_to_start_unless_another_program_took_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    settings = settings_in(tmp_path)

    with Deployment(settings, pages=True, api_port=free_port()) as first:
        store_url, flower = first.settings.store_url, urlsplit(first.flower_url).port
    with Deployment(settings, pages=True, api_port=free_port()) as second:
        assert second.settings.store_url == store_url
        assert urlsplit(second.flower_url).port == flower
        assert second.notices == []
    port = read_ports(settings.home)["flower"]
    with (
        listener(port),
        Deployment(settings, pages=True, api_port=free_port()) as third,
    ):
        assert urlsplit(third.flower_url).port != flower
        other = read_ports(settings.home)["flower"]
        [said] = third.notices
        us = f"process {os.getpid()} "
        assert said.startswith(f"port {port} is in use by {us}")
        assert said.endswith(f": flower has port {other} now")


def test_a_home_that_is_moved_is_noticed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    settings = settings_in(tmp_path)

    with Deployment(settings, pages=False) as deployment:
        assert [*deployment.revive()] == []
        settings.home.rename(tmp_path / "elsewhere")
        [moved] = deployment.revive()
        assert [*deployment.revive()] == []
        (tmp_path / "elsewhere").rename(settings.home)

    assert moved.startswith(f"{settings.home} was moved to {tmp_path}/elsewhere: ")


def test_several_that_start_at_once_are_all_up_each_with_a_port_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    wanted = free_port()
    monkeypatch.setattr(deployment, "API_PORT", wanted)
    starting = [Deployment(settings_in(tmp_path / name), pages=True) for name in "abc"]

    with ThreadPoolExecutor(3) as threads, ExitStack() as stack:
        for each in threads.map(Deployment.__enter__, starting):
            stack.push(each.__exit__)
        ports = [urlsplit(each.api_url).port for each in starting]
        said = [notice for each in starting for notice in each.revive()]

    others = {*ports} - {wanted}
    assert len(others) == 2
    assert all(each.startswith(f"port {wanted} is in use by process ") for each in said)
    assert sorted(each.rpartition(": ")[2] for each in said) == sorted(
        f"api has port {port} now" for port in others
    )


def test_every_process_knows_the_address_of_the_console_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = f"import os; print(os.environ.get('INTERLOCK_PUBLIC_URL'), flush=True); {READY}"
    replace_celery(tmp_path, shows, monkeypatch)
    named = settings_in(tmp_path / "named", public_url="https://interlock.example")

    for settings in (settings_in(tmp_path), named):
        with Deployment(settings, pages=True, api_port=free_port()) as running:
            wanted = settings.public_url or running.api_url
            logs = [*(running.home / "log").iterdir()]
            until(lambda: all(log.read_text() for log in logs), what="all have begun")  # noqa: B023
            assert {log.read_text().partition("\n")[0] for log in logs} == {wanted}
            assert running.settings.public_url == wanted


def test_the_port_of_the_api_is_lost_to_nobody_while_the_api_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = replace_celery(tmp_path, READY, monkeypatch)

    with Deployment(settings_in(tmp_path), pages=True, api_port=free_port()) as running:
        port = urlsplit(running.api_url).port
        for process_id in started:
            os.kill(process_id, signal.SIGKILL)
        until(running.dead, what="they have ended")
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port or 0))


def test_the_store_has_a_port_only_if_one_is_asked_for_and_then_a_password_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, READY, monkeypatch)
    settings, port = settings_in(tmp_path), free_port()

    with Deployment(settings, pages=False, port=port) as first:
        url = urlsplit(first.settings.store)
        with redis.Redis(port=port, protocol=2) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
    with Deployment(settings, pages=False, port=port) as second:
        assert (url.port, second.settings.store) == (port, url.geturl())
        password = (url.password or "").encode()
        assert password
        assert not processes(lambda _, command: password in command), "any user can read them"
    with Deployment(settings, pages=False) as third:
        address = urlsplit(third.settings.store)
        assert (address.scheme, address.path) == ("unix", f"{third.home}/store/store.sock")
    with listener(port), pytest.raises(PortTakenError, match=f"port {port} is in use"):
        Deployment(settings, pages=False, port=port).__enter__()


def listener(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback interface."""
    return socket.create_server(("127.0.0.1", port))


POOLS = ("models", "commands", "webhooks", "families")


def test_no_worker_but_their_own_takes_sweeps_and_the_effects_of_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise none would run while every thread of that worker is busy.
    replace_celery(tmp_path, f"import sys; print(sys.argv, flush=True); {READY}", monkeypatch)
    settings = settings_in(tmp_path, store_url=f"redis://127.0.0.1:{free_port()}/0")

    def option(name: str, option: str) -> list[str]:
        command = ast.literal_eval(started.log(name).read_text().partition("\n")[0])
        return str(command[command.index(option) + 1]).split(",")

    with Deployment(settings, pages=False, pools=True) as started:
        assert option("sweeps", "-Q") == ["interlock.sweeps"]
        pools = {name: option(name, "-Q") for name in POOLS}
        served = [*chain.from_iterable(pools.values())]
        assert sorted(option("worker", "-X")) == sorted(["interlock.sweeps", *served])
    assert pools["models"] == ["interlock.inference"]
    assert pools["webhooks"] == ["interlock.webhook"]
    assert pools["families"] == ["interlock.cascade"]
    assert {"interlock.worker", "interlock.verification"} < set(pools["commands"])


def test_a_restart_gives_each_new_pool_a_process_and_ends_that_of_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_celery(tmp_path, f"import sys; print(sys.argv, flush=True); {READY}", monkeypatch)
    settings = settings_in(tmp_path, store_url=f"redis://127.0.0.1:{free_port()}/0")

    with Deployment(settings, pages=False, pools=True) as started:
        first = {**started._processes}
        started.restart({"models": ["interlock.inference"], "couriers": ["interlock.send"]})
        until(lambda: "ready." in started.log("couriers").read_text(), what="it has begun")
        second = {**started._processes}
        worker = until(
            lambda: started.log("worker").read_text().splitlines()[2:], what="it has begun anew"
        )

        assert sorted(second) == sorted([*(first.keys() - {*POOLS}), "couriers", "models"])
        assert not {*first.values()} & {*second.values()}
        assert not any(map(is_alive, first.values()))
        assert all(map(is_alive, second.values()))
        assert "'interlock.sweeps,interlock.inference,interlock.send'" in worker[0]
        assert list(started.revive()) == []


def test_a_restart_starts_what_waits_for_its_next_start_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = replace_celery(tmp_path, READY, monkeypatch)
    settings = settings_in(tmp_path, store_url=f"redis://127.0.0.1:{free_port()}/0")

    with Deployment(settings, pages=False) as started:
        os.kill(started._processes["beat"], signal.SIGKILL)
        until(lambda: list(started.revive()), what="its end is seen")
        started.restart({})
        until(lambda: time.monotonic() > started._parts["beat"].started_at_s + 1.5, what="a while")

        assert list(started.revive()) == []
        assert len(processes) == 2 * len(started._processes)

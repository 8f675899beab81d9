"""Runs the commands of docker-compose.yml and of deploy/ on this computer."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import redis
from celery import Celery
from typer.testing import CliRunner

from interlock.kernel.event import Note
from interlock.kernel.machines import MACHINES
from interlock.systems.jobs.client import Graphs
from interlock.systems.threads.canary import canaries
from interlock.workers import cli
from interlock.workers.client import Client
from interlock.workers.config import read_settings, setting_names
from interlock.workers.gateways.server import EmbeddedServer, find_binary, free_port
from tests.deploy.services import (
    COMPOSE,
    DEPLOY,
    PASSWORDS,
    READY_S,
    ROOT,
    SERVICES,
    ComposeServices,
    expand,
    needs_cli,
)
from tests.end_to_end.deployment import thread
from tests.end_to_end.tasks.coding import make_repository, task
from tests.waiting import until

POOLS = ("models", "commands", "webhooks", "families")


@pytest.fixture
def deployed(tmp_path: Path) -> Iterator[ComposeServices]:
    """Return the services of the compose file, all started."""
    needs_cli()
    deployment = ComposeServices(tmp_path, find_binary())
    try:
        deployment.start("store")
        deployment.wait_until_healthy("store")
        for service in ("worker", *POOLS, "sweeps", "intake", "api", "flower"):
            deployment.start(service)
        for number in range(SERVICES["beat"]["deploy"]["replicas"]):
            deployment.start("beat", f"beat{number}")
        yield deployment
    finally:
        deployment.close()


def test_each_pool_has_a_service_and_no_other_serves_its_queues() -> None:
    queues: dict[str, set[str]] = {name: set() for name in POOLS}
    for machine in MACHINES.values():
        for effect in machine.effects.values():
            if effect.pool:
                queues[effect.pool].add(f"interlock.{effect}")

    def option(service: str, name: str) -> set[str]:
        command = SERVICES[service]["command"]
        return set(command[command.index(name) + 1].split(","))

    assert {name: option(name, "-Q") for name in POOLS} == queues
    assert option("worker", "-X") == {"interlock.sweeps"}.union(*queues.values())


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(300)
def test_the_compose_file_runs_a_whole_interlock(deployed: ComposeServices) -> None:
    # One test, because starting a deployment takes both cores for seconds. Each step has a name.
    every_healthcheck_succeeds(deployed)
    a_thread_of_a_producer_runs_to_done(deployed)
    a_plain_message_of_a_sender_becomes_a_thread(deployed)
    a_job_is_done_in_a_process_for_jobs(deployed)
    a_card_is_shown_to_the_producer_and_decided(deployed)
    the_sweeps_of_both_beats_are_sent(deployed)
    a_canary_gets_through(deployed)
    a_computer_with_agents_works_for_the_deployment(deployed)
    the_api_answers_the_holder_of_a_token(deployed)
    flower_shows_the_workers_to_a_user_with_the_password(deployed)
    the_operator_sees_the_level_and_that_nothing_was_denied(deployed)
    without_a_password_nothing_is_answered(deployed)
    for role, command in FORBIDDEN:
        a_user_may_do_no_more_than_its_role(deployed, role, command)
    a_worker_without_a_permission_says_so_and_waits(deployed)
    a_wedged_worker_is_not_healthy(deployed)


def every_healthcheck_succeeds(deployed: ComposeServices) -> None:
    for name in deployed.processes:
        deployed.wait_until_healthy(name.rstrip("01"), name)

    assert {name.rstrip("01") for name in deployed.processes} == set(SERVICES)


def a_thread_of_a_producer_runs_to_done(deployed: ComposeServices) -> None:
    client = deployed.client("producer")

    client.submit(thread("jot", text="hello"), machine="thread", id="from-a-producer")

    record = client.wait("from-a-producer", timeout_s=READY_S)
    assert (record.state, record.data["result"]) == ("done", "hello")
    notes = [line for line in client.history(record.id) if isinstance(line, Note)]
    claimed = Counter(note.kind for note in notes)["claim"]
    assert claimed >= 4, "three inferences and an execution"
    assert "Task thread.inference[" in deployed.output("models")
    assert "Task thread.inference[" not in deployed.output("worker")
    assert "Task thread.execution[" in deployed.output("worker")


def a_job_is_done_in_a_process_for_jobs(deployed: ComposeServices) -> None:
    client = deployed.client("producer")
    worker = {"capability": "jot", "parameters": {"text": "of a job"}}
    job = {"phases": [{"worker": worker}], "auto_approve": True}

    Graphs(client).create("release/notes", job, held=False)

    assert client.wait("release/notes", timeout_s=READY_S).state == "success"
    assert "Task job.worker[" in deployed.output("commands")
    assert "Task job.worker[" not in deployed.output("worker")


def a_plain_message_of_a_sender_becomes_a_thread(deployed: ComposeServices) -> None:
    request = {"id": "plain", "payload": thread("jot", text="from afar")}
    name, ask = "interlock.answers.importer", {"queue": "interlock.intake"}

    with (
        Celery(broker=deployed.url("sender"), set_as_current=False) as producer,
        producer.connection_for_read() as connection,
    ):
        answers = connection.SimpleQueue(name, no_ack=True)
        producer.send_task("interlock.submit", [request], reply_to=name, **ask)
        assert answers.get(timeout=READY_S).payload["answer"] == "accepted"
        cancel = {"id": "c1", "record": "plain"}
        producer.send_task("interlock.cancel", [cancel], reply_to=name, **ask)
        assert "INTERLOCK_INTAKE_ACCEPTS" in answers.get(timeout=READY_S).payload["reason"]

    client = deployed.client("operator")
    until(
        lambda: "plain" in [row.id for row in client.list(machine="thread")],
        what="it exists",
        within_s=READY_S,
    )
    assert client.wait("plain", timeout_s=READY_S).data["result"] == "from afar"


def a_card_is_shown_to_the_producer_and_decided(deployed: ComposeServices) -> None:
    client = deployed.client("producer")
    client.submit(thread("jot", policy="ask_every_step"), machine="thread", id="asks")

    card = client.cards()[0] if client.wait("asks", timeout_s=READY_S) else None
    assert card is not None
    client.cancel("asks", reason="not now")

    assert (card.record_id, client.show("asks").state) == ("asks", "dismissed")


def the_sweeps_of_both_beats_are_sent(deployed: ComposeServices) -> None:
    for name in ("beat0", "beat1"):
        sends = partial(deployed.has_logged, name, "sweep.orphans")
        until(sends, what=f"{name} sends sweeps", within_s=READY_S)
    ran = partial(deployed.has_logged, "sweeps", "Task sweep.orphans[")
    until(ran, what="a sweep ran", within_s=READY_S)
    for sweep in ("orphans", "stalls", "prune"):
        assert f"Task sweep.{sweep}" not in deployed.output("worker")


def a_canary_gets_through(deployed: ComposeServices) -> None:
    records = deployed.client("operator").records
    until(lambda: canaries(records).done, what="a canary is done", within_s=READY_S)


def a_computer_with_agents_works_for_the_deployment(deployed: ComposeServices) -> None:
    deployed.start_unit("agents", INTERLOCK_HOST="agents", INTERLOCK_LEASE_S="10")
    until(
        partial(deployed.has_logged, "agents", " ready."), what="agents is ready", within_s=READY_S
    )
    repo = make_repository(deployed.folder / "repo")
    client = deployed.client("producer")
    names = [f"n{number}" for number in range(3)]
    assert client.dispatch.hosts.facts() == {"agents": {"judge": False, "sandbox": True}}

    for name in names:
        payload = task(repo, f"echo {name} > {name}", signals=[])
        client.submit(payload, id=f"b/{name}", machine="task")

    for name in names:
        until(partial(is_in_state, client, f"b/{name}", "closed"), what=name, within_s=READY_S)
        assert (repo / name).exists()
        turn = partial(is_in_state, client, f"b/turn~{name}~1", "reaped")
        until(turn, what="its worktree is gone", within_s=READY_S)


def is_in_state(client: Client, record_id: str, state: str) -> bool:
    return client.show(record_id).state == state


def the_api_answers_the_holder_of_a_token(deployed: ComposeServices) -> None:
    words = ["token", "create", "shop", "--role", "producer", "--json"]
    made = CliRunner().invoke(cli.app, words, env=deployed.environment("api", "api"))
    assert made.exit_code == 0, made.output
    bearer = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
    body = json.dumps({"machine": "thread", "payload": thread("by-http")}).encode()
    headers = bearer | {"Idempotency-Key": "by-http", "Content-Type": "application/json"}
    address = f"http://127.0.0.1:{deployed.api_port}/v1/records"
    with urlopen(Request(address, body, headers), timeout=180) as answer:
        assert answer.status == 201
    deployed.client("producer").wait("by-http", timeout_s=READY_S)
    with pytest.raises(HTTPError, match="401") as refusal:
        urlopen(address, timeout=180)
    refusal.value.close()


def flower_shows_the_workers_to_a_user_with_the_password(deployed: ComposeServices) -> None:
    address = f"http://127.0.0.1:{deployed.flower_port}/api/workers?refresh=1"
    with pytest.raises(HTTPError) as refusal:
        urlopen(address, timeout=180)
    refusal.value.close()
    request = Request(address, headers={"Authorization": "Basic bWU6bWluZQ=="})

    def names() -> set[str]:
        with urlopen(request, timeout=180) as answer:  # noqa: S310
            return {name.partition("@")[0] for name in json.load(answer)}

    assert refusal.value.code == 401
    until(
        lambda: names() >= {"worker", *POOLS, "sweeps", "intake"},
        what="Flower shows all workers",
        within_s=READY_S,
    )


def the_operator_sees_the_level_and_that_nothing_was_denied(deployed: ComposeServices) -> None:
    environment = deployed.environment("worker", "operator")
    environment["INTERLOCK_STORE_URL"] = deployed.url("operator")

    printed = CliRunner().invoke(cli.app, ["doctor", "--json"], env=environment)

    assert printed.exit_code == 0, printed.output
    assert json.loads(printed.stdout)["level"] == "D1"
    log = map(fields, deployed.execute("operator", "ACL LOG"))
    assert [(denial["username"], denial["object"]) for denial in log] == []


FORBIDDEN = (
    ("sender", "LPUSH interlock.execution x"),
    ("sender", "HGETALL il:{p00}:r:plain"),
    ("sender", "RPOP interlock.intake"),
    ("producer", "RPOP interlock.execution"),
    ("producer", "DEL interlock.execution"),
    ("producer", "CONFIG GET *"),
    ("producer", "PUBLISH /0.celery-interlock.pidbox stop"),
    ("flower", "HGETALL il:{p00}:r:plain"),
    ("flower", "LPUSH interlock.execution x"),
    ("flower", "CLIENT KILL TYPE normal"),
    ("worker", "FLUSHALL"),
    ("worker", "SET somewhere-else 1"),
    ("worker", "FUNCTION FLUSH"),
    ("operator", "CONFIG SET appendonly no"),
)


def a_user_may_do_no_more_than_its_role(deployed: ComposeServices, role: str, command: str) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        deployed.execute(role, command)


def without_a_password_nothing_is_answered(deployed: ComposeServices) -> None:
    with (
        redis.Redis(port=deployed.port) as nobody,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        nobody.ping()


def a_worker_without_a_permission_says_so_and_waits(deployed: ComposeServices) -> None:
    unprivileged = deployed.start(
        "worker", "unprivileged", INTERLOCK_STORE_URL=deployed.url("sender")
    )

    lacks = "no permissions to run the 'info' command"
    until(lambda: lacks in deployed.output("unprivileged"), what="it says so", within_s=READY_S)
    assert unprivileged.poll() is None
    unprivileged.terminate()
    assert unprivileged.wait(READY_S) != 0
    del deployed.processes["unprivileged"]


def a_wedged_worker_is_not_healthy(deployed: ComposeServices) -> None:
    file = deployed.folder / "worker" / "alive"
    first = file.stat().st_mtime_ns
    until(lambda: file.stat().st_mtime_ns > first, what="it is touched again")

    deployed.processes["worker"].send_signal(signal.SIGSTOP)
    os.utime(file, (0, 0))

    assert not deployed.is_healthy("worker")
    deployed.processes["worker"].send_signal(signal.SIGCONT)
    deployed.wait_until_healthy("worker")


def fields(line: Any) -> dict[str, str]:
    """Return one line of ACL LOG, which the client returns in one of two forms."""
    pairs = line.items() if isinstance(line, dict) else zip(line[::2], line[1::2], strict=True)
    texts = [[v.decode() if isinstance(v, bytes) else str(v) for v in pair] for pair in pairs]
    return dict(texts)


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_the_store_starts_on_its_configuration_alone(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    binary = find_binary() if kind == "valkey" else _redis(request)
    port = free_port()
    command = [str(binary), str(DEPLOY / "store.conf"), "--port", str(port), "--bind", "127.0.0.1"]
    with (
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as process,
        redis.Redis(port=port, decode_responses=True) as client,
    ):
        try:
            until(lambda: _answers(client), what="it answers")
            wanted = {
                "appendonly": "yes",
                "appendfsync": "everysec",
                "maxmemory-policy": "noeviction",
            }
            assert {name: client.config_get(name)[name] for name in wanted} == wanted
        finally:
            process.terminate()


def test_redis_takes_the_users_as_valkey_does(redis_server: EmbeddedServer, tmp_path: Path) -> None:
    del redis_server
    needs_cli()
    deployment = ComposeServices(tmp_path, Path(str(shutil.which("redis-server"))))
    deployment.start("store")
    try:
        deployment.wait_until_healthy("store")
        assert deployment.execute("operator", "ACL WHOAMI") in ("operator", b"operator")
    finally:
        deployment.close()


def test_a_store_without_a_password_for_every_user_does_not_start(tmp_path: Path) -> None:
    environment = {**os.environ, **PASSWORDS, "SENDER_PASSWORD": "", "STORE_USERS": f"{tmp_path}/u"}

    ended = subprocess.run(
        ["/bin/sh", str(DEPLOY / "store.sh")], env=environment, capture_output=True, check=False
    )

    assert ended.returncode != 0
    assert b"give the sender user a password" in ended.stderr


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    names = set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    lines = (DEPLOY / "env.example").read_text().splitlines()
    documented = {line.partition("=")[0] for line in lines if "=" in line and line[0] != "#"}

    assert names == documented


# The compose file sets these itself: its store, the names in its commands, what its containers are.
OWN = {
    *("STORE_URL", "BROKER_URL", "PREFIX", "NAMESPACE", "ENQUEUE"),
    *("AUTH", "API_URL", "API_TOKEN"),
    *("CONCURRENCY", "ALIVE", "AGENTS_MAX", "HOME", "WORKTREES", "CAPABILITIES_ROOT"),
}


def test_every_setting_can_be_set_from_the_env_file() -> None:
    settings = {f"INTERLOCK_{name.upper()}" for name in setting_names()}
    expected = settings - {f"INTERLOCK_{name}" for name in OWN}
    environments = [service.get("environment", {}) for service in SERVICES.values()]
    ours = [variables for variables in environments if "INTERLOCK_STORE_URL" in variables]

    assert ours
    for variables in ours:
        values = {name: expand(str(value)) for name, value in variables.items()}
        read_settings({name: value for name, value in values.items() if value})
        taken = {name for name, value in variables.items() if str(value).startswith(f"${{{name}:-")}
        assert taken - {"OTEL_EXPORTER_OTLP_ENDPOINT"} == expected


def test_ports_are_published_on_the_loopback_address_unless_another_is_set() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    store = SERVICES["store"]["ports"][0]

    assert ports
    assert all(expand(port).startswith("127.0.0.1:") for port in ports)
    assert (
        expand(store, {"STORE_ADDRESS": "10.0.0.5", "STORE_PORT": "7000"}) == "10.0.0.5:7000:6379"
    )


def test_every_service_has_a_healthcheck_and_no_privileges() -> None:
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert isinstance(service.get("entrypoint", service.get("command")), list), name


DOCKERFILE = re.sub(r"\\\n", "", (DEPLOY / "Dockerfile").read_text())
STEPS = [line.split(" ", 1) for line in DOCKERFILE.splitlines() if line and line[0] not in "# "]


def test_the_image_runs_as_its_own_user_and_in_exec_form() -> None:
    last = STEPS[max(index for index, (word, _) in enumerate(STEPS) if word == "FROM") :]
    users = [rest for word, rest in last if word == "USER"]

    assert users == ["interlock"]
    assert all(rest.startswith("[") for word, rest in STEPS if word in ("RUN", "CMD"))


def test_the_containers_are_one_computer_whose_files_are_on_one_volume() -> None:
    image = dict(
        found.split("=", 1) for word, rest in STEPS if word == "ENV" for found in rest.split()
    )
    (user,) = (json.loads(rest) for word, rest in STEPS if word == "RUN" and "useradd" in rest)
    home = user[user.index("--home-dir") + 1]
    ours = [
        each for each in SERVICES.values() if "INTERLOCK_STORE_URL" in each.get("environment", {})
    ]

    # An empty volume gets the owner of the image's folder, which is the user's home.
    assert "--create-home" in user
    assert image["INTERLOCK_HOME"] == home
    assert Path(image["INTERLOCK_WORKTREES"]).is_relative_to(home)
    assert "files" in COMPOSE["volumes"]
    for service in ours:
        assert expand(service["environment"]["INTERLOCK_HOST"], {}) == "compose"
        assert f"files:{home}" in service["volumes"]


def test_the_image_starts_a_worker_by_default() -> None:
    command = json.loads(next(rest for word, rest in STEPS if word == "CMD"))
    worker = [expand(word, {}) for word in SERVICES["worker"]["command"]]
    index = worker.index("-X")

    assert command == worker[:index] + worker[index + 2 :]


def test_the_files_that_the_image_copies_exist_and_are_not_ignored() -> None:
    copied = [rest.split()[:-1] for word, rest in STEPS if word == "COPY" and "--from" not in rest]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    for source in (path for paths in copied for path in paths):
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored


def commands() -> list[list[str]]:
    """Return the commands that build the image."""
    return [json.loads(rest) for word, rest in STEPS if word == "RUN"]


def test_the_commands_that_build_the_image_run_here(tmp_path: Path) -> None:
    for command in commands():
        match command:
            case ["python", "-m", "venv", target]:
                local = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / target[1:])]
            case [program, *arguments] if program.endswith("/bin/pip"):
                # This environment was made from the same lock file, so nothing is left to install.
                local = [sys.executable, "-m", "pip", *arguments, "--dry-run", "--quiet"]
            case ["useradd", *arguments]:
                local = _useradd(tmp_path, arguments)
            case _:
                pytest.fail(f"no test runs {command}")
        subprocess.run(local, cwd=ROOT, check=True, capture_output=True, timeout=280)


@pytest.mark.proof
def test_the_environment_of_the_image_can_be_built_from_scratch(tmp_path: Path) -> None:
    target = tmp_path / "opt"
    for command in commands()[:-1]:
        arguments = [word.replace("/opt/interlock", str(target)) for word in command]
        arguments[0] = sys.executable if arguments[0] == "python" else arguments[0]
        subprocess.run(arguments, cwd=ROOT, check=True)

    printed = subprocess.run(
        [target / "bin" / "interlock", "--version"], cwd=tmp_path, capture_output=True, check=True
    )
    assert printed.stdout.startswith(b"interlock ")


def _useradd(folder: Path, arguments: Sequence[str]) -> list[str]:
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("only root may add a user, even to a folder")
    etc = folder / "root" / "etc"
    etc.mkdir(parents=True)
    for name in ("passwd", "group", "shadow", "gshadow", "login.defs", "subuid", "subgid"):
        (etc / name).write_text("")
    return ["useradd", "--prefix", str(folder / "root"), *arguments]


def _redis(request: pytest.FixtureRequest) -> Path:
    request.getfixturevalue("redis_server")
    return Path(str(shutil.which("redis-server")))


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.RedisError:
        return False

"""An agent runs until none of its processes is left, and its exit is described correctly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.workers.processes.agent import cgroup
from interlock.workers.processes.agent.containment import CGROUP, GROUP, SUBREAPER
from interlock.workers.processes.agent.output import OutputLog
from interlock.workers.processes.agent.pipes import DRAIN_S_MAX, Pipes
from interlock.workers.processes.agent.process import AgentProcess, LogFiles, SpawnError
from interlock.workers.processes.agent.process_table import read_process
from interlock.workers.processes.clock import clock
from tests.processes import PROC, is_alive
from tests.waiting import until
from tests.workers.processes.stubborn_agents import (
    ENVIRONMENT,
    FAMILY,
    LOG_BYTES_MAX,
    MEMBERS,
    STAY,
    alive,
    cgroups_for,
    ended,
    ids,
    python,
    run,
    running,
)

pytestmark = pytest.mark.skipif(not PROC.joinpath("self").exists(), reason="looks into /proc")
# Each process leaves its parent's session and starts the next; every second one ends at once.
STORM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stdin.readline()
for number in range(50):
    if os.fork():
        os._exit(0) if number % 2 else time.sleep(600)
    os.setsid()
    with open("births", "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.002)
time.sleep(600)
"""
# The body starts a new head for each that is killed. The heads have lost their parent, so that
# a kill in the order of the process list reaches them before the body.
HYDRA = """
import os, select, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def grow():
    felt, held = os.pipe()
    if not os.fork():
        os.fork() or time.sleep(600)
        os._exit(0)
    os.wait()
    os.close(held)
    return felt
if os.fork():
    time.sleep(600)
heads = [grow() for _ in range(30)]
open("up", "w").close()
for _ in range(50):
    felt = select.select(heads, [], [])[0][0]
    open("reborn", "w").close()
    heads.remove(felt)
    heads.append(grow())
"""

# The first real-time signals are the C library's own.
ORDINARY = 0x7FFFFFFF


@pytest.fixture(params=[CGROUP, SUBREAPER])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return each kind that finds all processes, with a folder for its cgroups."""
    with cgroups_for(request.param) as parent:
        monkeypatch.setattr(cgroup, "own_folder", lambda: parent)
        yield request.param


def state_of(pid: int) -> str:
    seen = read_process(pid)
    return seen.state if seen else ""


@pytest.mark.parametrize("code", [0, 1, 124, 126, 137])
def test_the_exit_code_is_the_leaders(tmp_path: Path, code: int) -> None:
    exit_ = run(["sh", "-c", f"exit {code}"], tmp_path)

    assert (exit_.code, exit_.reason_by_us, exit_.left_behind) == (code, None, 0)


@pytest.mark.parametrize("number", [9, 15])
def test_an_end_by_a_signal_from_elsewhere_has_no_reason_of_ours(
    tmp_path: Path, number: int
) -> None:
    exit_ = run(["sh", "-c", f"kill -{number} $$"], tmp_path)

    assert (exit_.code, exit_.reason_by_us) == (-number, None)


def test_our_own_sigkill_has_the_first_reason_given(tmp_path: Path) -> None:
    with running(python(f"{STAY}stay('leader')"), tmp_path) as agent:
        ids(tmp_path, "leader")
        agent.end("timeout", grace_s=0.1)
        agent.end("shutdown_signal", grace_s=0.1)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, "timeout")


def test_an_agent_that_handles_sigterm_ends_within_the_grace(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 3' TERM; touch up; while :; do sleep 0.01; done"
    with running(["bash", "-c", script], tmp_path) as agent:
        until((tmp_path / "up").exists, what="the agent is up")
        agent.end("user_interrupt", grace_s=60)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (3, "user_interrupt")
    assert exit_.output == "bye\n"


def test_a_stopped_agent_receives_sigterm_too(tmp_path: Path) -> None:
    with running(["sh", "-c", "kill -STOP $$"], tmp_path) as agent:
        until(lambda: state_of(agent.pid) == "T", what="the agent has stopped")
        agent.end("timeout", grace_s=60)

        assert ended(agent).code == -signal.SIGTERM


def test_an_agent_that_ended_before_the_order_was_not_ended_by_us(tmp_path: Path) -> None:
    program = f"{STAY}\nif os.fork():\n    time.sleep(0.1)\n    os._exit(5)\nstay('child')"
    with running(python(program), tmp_path) as agent:
        ids(tmp_path, "child")
        until(lambda: not is_alive(agent.pid), what="the leader has ended")
        agent.end("timeout", grace_s=0)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us, exit_.left_behind) == (5, None, 1)


def test_an_agent_killed_before_the_order_was_read_was_not_killed_by_us(tmp_path: Path) -> None:
    with running(["sleep", "600"], tmp_path) as agent:
        watchdog = agent._watchdog._process
        until(lambda: state_of(watchdog.pid) == "S", what="the watchdog waits")
        watchdog.send_signal(signal.SIGSTOP)
        until(lambda: state_of(watchdog.pid) == "T", what="the watchdog has stopped")
        os.kill(agent.pid, signal.SIGKILL)
        until(lambda: not is_alive(agent.pid), what="the leader has ended")
        agent.end("timeout", grace_s=60)
        watchdog.send_signal(signal.SIGCONT)
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, None)


def test_no_descendant_survives_however_it_hides(tmp_path: Path, kind: str) -> None:
    with running(python(FAMILY), tmp_path, kinds=[kind]) as agent:
        family = ids(tmp_path, *MEMBERS)
        assert agent.containment == kind
        assert agent.pid == family[0]
        agent.end("parent_aborted", grace_s=0.1)
        exit_ = ended(agent)

        assert not alive(family)
    assert (exit_.code, exit_.reason_by_us) == (-signal.SIGKILL, "parent_aborted")


def test_processes_that_outlive_the_leader_are_ended_and_counted(tmp_path: Path, kind: str) -> None:
    up = " and ".join(f"os.path.exists('{name}')" for name in MEMBERS[1:])
    # It waits for the two children that start the daemon and the stranger; no other child ends
    # by itself.
    leaving = f"while not ({up}):\n    time.sleep(0.01)\nos.wait(); os.wait()\nos._exit(7)"
    program = FAMILY.replace('stay("leader")', leaving)
    with running(python(program), tmp_path, kinds=[kind]) as agent:
        exit_ = ended(agent)

    assert (exit_.code, exit_.reason_by_us) == (7, None)
    assert exit_.left_behind == len(MEMBERS) - 1
    assert not alive(ids(tmp_path, *MEMBERS[1:]))


def test_a_process_that_forks_while_being_killed_is_killed_as_well(
    tmp_path: Path, kind: str
) -> None:
    births = tmp_path / "births"

    def forked() -> list[int]:
        return [int(line) for line in births.read_text().split()] if births.exists() else []

    with running(python(STORM), tmp_path, more_follows=True, kinds=[kind]) as agent:
        agent.send("go\n", last=True)
        until(lambda: len(forked()) > 5, what="the forks are running")
        agent.end("timeout", grace_s=0)
        ended(agent)

        assert not alive(forked())


def test_all_are_stopped_before_any_is_killed(tmp_path: Path) -> None:
    with running(python(HYDRA), tmp_path, kinds=[SUBREAPER]) as agent:
        until((tmp_path / "up").exists, what="the hydra is up")
        agent.end("timeout", grace_s=0.05)
        ended(agent)

    assert not (tmp_path / "reborn").exists()


def test_a_process_group_is_ended_without_a_better_containment(tmp_path: Path) -> None:
    program = f"{STAY}\nos.fork() or stay('child')\nstay('leader')"
    with running(python(program), tmp_path, kinds=[GROUP]) as agent:
        both = ids(tmp_path, "leader", "child")
        assert agent.containment == GROUP
        agent.end("timeout", grace_s=0.1)

        assert ended(agent).code == -signal.SIGKILL
        assert not alive(both)


def test_leaving_the_block_with_an_error_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with running(python(FAMILY), tmp_path):
            family.extend(ids(tmp_path, *MEMBERS))
            raise LookupError

    family: list[int] = []
    with pytest.raises(LookupError):
        fail()

    assert not alive(family)


def test_a_flood_keeps_its_two_ends_and_the_file_stays_under_its_limit(tmp_path: Path) -> None:
    script = "echo first; head -c 50000000 /dev/zero; echo last"
    log, sizes = tmp_path / "output", [0]

    with running(["sh", "-c", script], tmp_path) as agent:
        while (exit_ := agent.wait(0)) is None:
            sizes.append(log.stat().st_size)
    text = log.read_bytes()
    head, _, rest = text.partition(b"\n[... ")
    missing, _, tail = rest.partition(b" bytes were cut here ...]\n")

    assert exit_.cut
    assert max(*sizes, len(text)) <= LOG_BYTES_MAX
    assert head.startswith(b"first\n")
    assert tail.endswith(b"last\n")
    assert exit_.output.endswith("\N{REPLACEMENT CHARACTER}last\n")
    assert len(head) + int(missing) + len(tail) == 50_000_000 + len("first\nlast\n")


def test_an_agent_that_closes_its_output_early_runs_on(tmp_path: Path) -> None:
    script = "echo out; exec >&- 2>&-; touch closed; read line; exit 4"
    with running(["sh", "-c", script], tmp_path, more_follows=True) as agent:
        until((tmp_path / "closed").exists, what="both outputs are closed")
        assert is_alive(agent.pid)
        agent.send("", last=True)
        exit_ = ended(agent)

    assert (exit_.code, exit_.output, exit_.cut) == (4, "out\n", False)


def test_an_agent_that_closes_its_input_early_runs_on(tmp_path: Path) -> None:
    with running(["sh", "-c", "exec <&-; sleep 600"], tmp_path, more_follows=True) as agent:
        until(lambda: not agent.send("x", last=False), what="the closed input is noticed")
        assert is_alive(agent.pid)


def test_a_large_prompt_reaches_a_reader_and_blocks_no_other_agent(tmp_path: Path) -> None:
    prompt = "0123456789\n" * 500_000

    assert run(["wc", "-c"], tmp_path, prompt).output.split() == [str(len(prompt))]
    assert run(["true"], tmp_path, prompt).code == 0
    # Reads enough for a little room in the pipe, and then writes more than a pipe takes.
    script = "import os; os.read(0, 5000); os.write(1, b'x' * 1_000_000)"
    assert run(python(script), tmp_path, prompt).code == 0
    with running(["sleep", "600"], tmp_path, prompt=prompt) as agent:
        agent.end("timeout", grace_s=60)
        assert ended(agent).code == -signal.SIGTERM


def test_a_session_agent_takes_further_lines_until_its_input_is_closed(tmp_path: Path) -> None:
    with running(["cat"], tmp_path, prompt="one\n", more_follows=True, reads_output=True) as agent:
        assert until(agent.output_lines, what="the first line is back") == [b"one"]
        assert agent.send("two\n", last=False)
        assert until(agent.output_lines, what="the second line is back") == [b"two"]
        assert agent.send("three", last=True)
        assert not agent.send("four", last=True)
        exit_ = ended(agent)
        assert agent.output_lines() == [b"three"]
        assert not agent.arm(clock() + 60)

    assert (exit_.code, exit_.output) == (0, "one\ntwo\nthree")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ([], "the command is empty"),
        (["no-such-command-here"], "there is no such command"),
        (["./missing"], "there is no such command"),
        (["./plain"], "plain is not executable"),
        (["plain"], "plain is not executable"),
        (["./"], "is not executable"),
        (["echo", "a\0b"], "a NUL character is in the command"),
        (["./lost"], "No such file or directory"),
        (["./garbage"], "Exec format error"),
    ],
)
@pytest.mark.usefixtures("kind")
def test_a_command_that_cannot_start_is_refused_in_one_sentence(
    tmp_path: Path, command: list[str], problem: str
) -> None:
    for name, mode, text in [
        ("plain", 0o644, b"#!/bin/sh\n"),
        ("lost", 0o755, b"#!/no/such/program\n"),
        ("garbage", 0o755, b"\x7fELF"),
    ]:
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(mode)
    environment = {**ENVIRONMENT, "PATH": f"{ENVIRONMENT['PATH']}:{tmp_path}"}

    with pytest.raises(SpawnError, match=f"^cannot start .*{problem}"):
        running(command, tmp_path, environment=environment).__enter__()


@pytest.mark.parametrize("fault", ["folder", "variable", "prompt", "log"])
def test_nothing_is_started_or_written_with_a_bad_environment(tmp_path: Path, fault: str) -> None:
    (tmp_path / "errors").mkdir()
    with pytest.raises((SpawnError, OSError)):
        AgentProcess.start(
            ["touch", "ran"],
            folder=tmp_path / "none" if fault == "folder" else tmp_path,
            environment={**ENVIRONMENT, **({"A=B": "C"} if fault == "variable" else {})},
            prompt="\ud800" if fault == "prompt" else "",
            more_follows=False,
            reads_output=False,
            logs=LogFiles(tmp_path / "output", tmp_path / "errors", LOG_BYTES_MAX),
            label="any",
            kill_by=clock() + 60,
        )

    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "output").exists() == (fault == "log")


def test_reports_come_line_by_line_and_are_progress(tmp_path: Path) -> None:
    script = "exec >&$INTERLOCK_REPORT_FD; read x; printf 'one\\ntw'; read x; printf o"
    with running(["bash", "-c", script], tmp_path, more_follows=True) as agent:
        began = agent.progress
        agent.send("\n", last=False)
        assert until(agent.reports, what="a line came") == [b"one"]
        assert agent.progress > began
        agent.send("\n", last=True)
        ended(agent)

        assert agent.reports() == [b"two"]


def test_an_agent_that_reports_faster_than_is_read_waits_and_loses_nothing(tmp_path: Path) -> None:
    script = "seq 300000 >&$INTERLOCK_REPORT_FD"
    with running(["bash", "-c", script], tmp_path) as agent:
        until(lambda: agent._pipes.reports.full, what="too many lines wait")
        assert agent.wait(0.5) is None
        lines: list[bytes] = []
        while agent.wait(0) is None:
            lines += agent.reports()
        lines += agent.reports()

    assert lines == [b"%d" % number for number in range(1, 300_001)]


def test_a_silent_agent_is_alive_and_makes_no_progress(tmp_path: Path) -> None:
    with running(["cat"], tmp_path, more_follows=True) as agent:
        assert is_alive(agent.pid)
        assert agent.progress <= agent.began
        agent.send("x", last=False)
        until(lambda: agent.progress > agent.began, what="a byte of output is progress")


def test_a_pipe_that_another_process_holds_open_does_not_delay_the_end(tmp_path: Path) -> None:
    with (
        running(["cat"], tmp_path, more_follows=True) as agent,
        Path(f"/proc/{agent.pid}/fd/1").open("wb"),
    ):
        began = time.monotonic()
        agent.send("", last=True)
        exit_ = ended(agent)

    assert time.monotonic() - began >= DRAIN_S_MAX
    assert exit_.cut


def finish_late(tmp_path: Path, agent_writes: Callable[[int], object]) -> Pipes:
    """Let an agent write to this descriptor, and read its output only when its pipes are closed."""
    output, errors = (
        OutputLog(tmp_path / name, bytes_max=LOG_BYTES_MAX) for name in ("output", "errors")
    )
    pipes = Pipes(output=output, errors=errors, prompt=b"", more_follows=False)
    agent_writes(pipes.agent_ends[1])
    # The thread ends before it has read anything, as after a stall: its time is over.
    pipes._drain_until = time.monotonic() - 1
    pipes.start()
    pipes._thread.join()
    pipes.finish()
    return pipes


def test_output_that_is_read_late_is_complete(tmp_path: Path) -> None:
    pipes = finish_late(tmp_path, lambda output: os.write(output, b"said at the end"))

    assert (pipes.output.tail(), pipes.cut) == ("said at the end", False)


def test_output_that_is_read_late_and_never_ends_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:

        def write_for_ever(output: int) -> None:
            kept = os.dup(output)
            stack.callback(os.close, kept)
            # Whenever something is read, there is more.
            monkeypatch.setattr(OutputLog, "write", lambda _log, chunk: os.write(kept, chunk))
            os.write(kept, b"and so on")

        pipes = finish_late(tmp_path, write_for_ever)

    assert pipes.cut


def test_time_and_memory_are_those_of_all_processes(tmp_path: Path, kind: str) -> None:
    grow = python("x = b'1' * 60_000_000; import time\nwhile time.process_time() < 0.3: pass")
    with running(["bash", "-c", '"$@" & wait', "bash", *grow], tmp_path, kinds=[kind]) as agent:
        exit_ = ended(agent)

    assert exit_.cpu_s >= 0.3
    assert exit_.wall_s >= 0.3
    assert 60_000_000 < exit_.max_rss_bytes < 200_000_000


def test_the_agent_inherits_its_four_descriptors_and_no_ignored_signal(tmp_path: Path) -> None:
    script = "ls -l /proc/$$/fd; grep SigIgn /proc/self/status; echo fd $INTERLOCK_REPORT_FD"
    lines = run(["bash", "-c", script], tmp_path).output.splitlines()

    descriptors = {int(line.split()[8]) for line in lines if " -> " in line}
    # 255 is bash's own.
    assert descriptors - {255} == {0, 1, 2, int(lines[-1].split()[1])}
    assert int(next(line for line in lines if "SigIgn" in line).split()[1], 16) & ORDINARY == 0

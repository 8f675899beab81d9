"""Finished work is checked by its signals, and a signal that cannot be checked has failed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.tasks.verification.check import OUTPUT_BYTES_MAX, check
from interlock.systems.tasks.verification.model_verdict import (
    UNCONFIGURED,
    AskModel,
    Judgement,
)
from interlock.systems.tasks.verification.signals import (
    CompletionVerdict,
    ParsedSignal,
    SignalResult,
)
from interlock.workers.gateways.server import free_port
from interlock.workers.processes.agent import contained
from tests.processes import is_alive
from tests.waiting import until

STUBBORN = """sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done' &"""


def answering(answer: object, instructions: list[str] | None = None) -> AskModel:
    async def ask(instruction: str) -> object:
        if instructions is not None:
            instructions.append(instruction)
        return answer

    return ask


async def raises(instruction: str) -> object:
    raise LookupError(instruction)


async def hangs(instruction: str) -> object:
    await asyncio.Event().wait()
    return instruction


def checked(folder: Path, *pairs: tuple[str, str], **options: Any) -> CompletionVerdict:
    needed = {"reviewer": None, "judge": None}
    signals = [ParsedSignal(*pair) for pair in pairs]
    return asyncio.run(check(signals, folder=folder, **{**needed, **options}))


def only(folder: Path, signal_type: str, value: str, **options: Any) -> SignalResult:
    verdict = checked(folder, (signal_type, value), **options)
    (result,) = verdict.results
    assert verdict.passed is result.passed
    assert (result.type, result.value) == (signal_type, value)
    assert result.seconds >= 0
    return result


def outcome_of(result: SignalResult) -> tuple[bool, str]:
    return result.passed, result.detail


def ends(pid: Path) -> None:
    """Check that the process whose number is in a file has ended."""
    until(lambda: not is_alive(int(pid.read_text())), what="the end of the grandchild")


def test_work_without_signals_passes(tmp_path: Path) -> None:
    assert checked(tmp_path) == CompletionVerdict(passed=True, results=())


def test_an_unknown_signal_has_failed(tmp_path: Path) -> None:
    assert outcome_of(only(tmp_path, "vibes", "good")) == (False, "'vibes' is not a type of signal")


@pytest.mark.parametrize(
    ("signal_type", "value", "passed", "detail"),
    [
        ("path_exists", "src/a.py", True, "it exists"),
        ("path_exists", "src/b.py", False, "it does not exist"),
        ("glob_exists", "**/*.py", True, "a file matches"),
        ("glob_exists", "*.py", False, "no file matches"),
        ("file_contains", "src/a.py :: x = 1 :: y", True, "the file has the text"),
        ("file_contains", "src/a.py :: x = 2", False, "the file does not have the text"),
        ("file_contains", "src/b.py :: x", False, "no such file or directory"),
        (
            "file_contains",
            "src/a.py",
            False,
            "it does not name the text that the file should contain",
        ),
        (
            "file_contains",
            "src/a.py :: ",
            False,
            "it does not name the text that the file should contain",
        ),
        ("path_exists", "../outside", False, "the path has '..', which leads out of the folder"),
        ("glob_exists", "/*", False, "the path is absolute; give one inside the folder"),
        ("file_contains", "link :: secret", False, "the path leads out of the folder by a link"),
        ("file_contains", "link :: no", False, "the path leads out of the folder by a link"),
    ],
)
def test_a_signal_about_files_is_checked_in_the_folder(
    tmp_path: Path,
    signal_type: str,
    value: str,
    passed: bool,  # noqa: FBT001 - a case
    detail: str,
) -> None:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("x = 1 :: y\n")
    (tmp_path / "outside").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")

    assert outcome_of(only(folder, signal_type, value)) == (passed, detail)


@pytest.mark.parametrize(
    ("signal_type", "value"),
    [
        *[("path_exists", "a"), ("glob_exists", "*"), ("file_contains", "a :: b")],
        *[("test_passes", "true"), ("path_exists", "a\0"), ("test_passes", "echo \0")],
    ],
)
def test_a_signal_that_cannot_be_checked_has_failed(
    tmp_path: Path, signal_type: str, value: str
) -> None:
    assert not only(tmp_path / "gone", signal_type, value).passed


def test_a_test_passes_in_the_folder_with_exit_code_0(tmp_path: Path) -> None:
    (tmp_path / "here").touch()

    assert outcome_of(only(tmp_path, "test_passes", "test -f here && echo fine")) == (
        True,
        "exit code 0",
    )


def test_the_output_of_a_failed_test_is_kept_in_its_order(tmp_path: Path) -> None:
    result = only(tmp_path, "test_passes", "echo one; echo two >&2; echo three; exit 3")

    assert outcome_of(result) == (False, "exit code 3; the last output:\none\ntwo\nthree\n")
    assert outcome_of(only(tmp_path, "test_passes", "exit 4")) == (False, "exit code 4; no output")


def test_a_test_that_a_signal_ended_has_failed(tmp_path: Path) -> None:
    assert outcome_of(only(tmp_path, "test_passes", "kill -9 $$")) == (
        False,
        "exit code -9; no output",
    )


def test_an_invalid_shell_command_has_failed_with_the_error_of_the_shell(tmp_path: Path) -> None:
    result = only(tmp_path, "test_passes", "if then (")

    assert not result.passed
    assert "yntax error" in result.detail


def test_of_long_output_the_last_4_kib_are_kept(tmp_path: Path) -> None:
    result = only(
        tmp_path, "test_passes", "head -c 9000 /dev/zero | tr '\\0' x; printf end; exit 1"
    )

    assert result.detail == "exit code 1; the last output:\n" + "x" * (OUTPUT_BYTES_MAX - 3) + "end"


def test_a_character_cut_in_two_is_left_out(tmp_path: Path) -> None:
    text = "\u00e4" * 3000 + "x"

    result = only(tmp_path, "test_passes", f"printf %s {text}; exit 1")

    last = result.detail.partition("\n")[2]
    assert last == text[-(OUTPUT_BYTES_MAX // 2) :]
    assert len(last.encode()) == OUTPUT_BYTES_MAX - 1


def test_a_test_command_sees_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "yes")
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")
    command = 'test "$GIVEN" = yes && test -z "$INTERLOCK_STORE_URL"'

    assert only(tmp_path, "test_passes", command).passed


def test_a_test_that_hangs_fails_and_leaves_no_grandchild(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    # A busy computer may not start the grandchild in time: try again with a longer limit.
    for test_s in (0.5, 5.0, 60.0):
        result = only(tmp_path, "test_passes", f"{STUBBORN} echo up; wait", test_s=test_s)
        if pid.exists() and pid.read_text() and "up" in result.detail:
            break

    late = f"it did not end within {test_s:g} s; the last output:\nup\n"
    assert outcome_of(result) == (False, late)
    ends(pid)


def test_background_processes_of_a_passing_test_are_ended_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process keeps the output open: a check that read to its end first would never return.
    monkeypatch.setattr(contained, "_READ_S", 600.0)
    command = f"{STUBBORN} until [ -s pid ]; do sleep 0.01; done"

    assert only(tmp_path, "test_passes", command).passed
    ends(tmp_path / "pid")


def test_a_server_that_a_test_leaves_behind_does_not_keep_its_port(tmp_path: Path) -> None:
    """It has left the session of the test, and nothing but its port shows it."""
    serve = (
        "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
        "open('up', 'w').close(); time.sleep(600)"
    )
    start = f'{sys.executable} -IS -c "{serve}" {free_port()}'
    command = f"env -i setsid {start} >/dev/null 2>&1 & until [ -e up ]; do sleep 0.01; done; rm up"

    assert outcome_of(only(tmp_path, "test_passes", command, test_s=60)) == (True, "exit code 0")
    assert outcome_of(only(tmp_path, "test_passes", command, test_s=60)) == (True, "exit code 0")


def test_cancelling_ends_the_test_with_its_grandchild(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def cancelled() -> None:
        signals = [ParsedSignal("test_passes", f"{STUBBORN} wait")]
        task = asyncio.create_task(check(signals, folder=tmp_path, reviewer=None, judge=None))
        while not (pid.exists() and pid.read_text()):  # noqa: ASYNC110 - nothing announces a file
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())

    ends(pid)


def test_a_reviewer_is_asked_the_instruction(tmp_path: Path) -> None:
    instructions: list[str] = []

    assert outcome_of(
        only(tmp_path, "llm_review", "short?", reviewer=answering("PASS", instructions))
    ) == (
        True,
        "PASS",
    )
    assert instructions == ["short?"]


@pytest.mark.parametrize(
    ("ask", "detail"),
    [
        (answering("FAIL: no test"), "the answer is not PASS: FAIL: no test"),
        (answering(b"\xff"), "the answer is not PASS: b'\\xff'"),
        (raises, "the reviewer failed: LookupError: good?"),
        (hangs, "the reviewer did not answer within 0.01 s"),
        (None, f"the reviewer {UNCONFIGURED}"),
    ],
)
def test_a_reviewer_that_does_not_pass_the_work_fails_it(
    tmp_path: Path, ask: AskModel | None, detail: str
) -> None:
    result = only(tmp_path, "llm_review", "good?", reviewer=ask, answer_s=0.01)

    assert outcome_of(result) == (False, detail)


def test_a_judges_verdict_comes_with_its_confidence(tmp_path: Path) -> None:
    sure = Judgement(verdict="accept", confidence=0.9)
    unsure = Judgement(verdict="accept", confidence=0.5)

    first = only(tmp_path, "llm_judge", "done?", judge=answering(sure))
    second = only(tmp_path, "llm_judge", "done?", judge=answering(unsure))

    assert (first.passed, first.confidence, first.flagged) == (True, 0.9, False)
    assert (second.passed, second.confidence, second.flagged) == (True, 0.5, True)


@pytest.mark.parametrize("ask", [answering("rubbish"), raises, hangs, None])
def test_a_judge_without_a_verdict_is_a_retry_without_confidence(
    tmp_path: Path, ask: AskModel | None
) -> None:
    result = only(tmp_path, "llm_judge", "done?", judge=ask, answer_s=0.01)

    assert (result.passed, result.confidence, result.flagged) == (False, 0.0, True)
    assert result.detail.startswith("retry: the judge")


def test_a_judge_is_asked_after_all_others_and_answers_in_its_place(tmp_path: Path) -> None:
    instructions: list[str] = []
    accept = Judgement(verdict="accept", confidence=1)

    verdict = checked(
        tmp_path,
        ("llm_judge", "last"),
        ("llm_review", "first"),
        ("llm_judge", "too"),
        judge=answering(accept, instructions),
        reviewer=answering("PASS", instructions),
    )

    assert instructions == ["first", "last", "too"]
    assert [result.value for result in verdict.results] == ["last", "first", "too"]
    assert verdict.passed


def test_a_judge_is_not_asked_when_another_signal_failed(tmp_path: Path) -> None:
    instructions: list[str] = []

    verdict = checked(
        tmp_path,
        ("llm_judge", "done?"),
        ("path_exists", "gone"),
        judge=answering(Judgement(verdict="accept", confidence=1), instructions),
    )

    assert not instructions
    assert outcome_of(verdict.results[0]) == (False, "not asked: another signal failed")
    assert verdict.results[0].confidence is None


def test_each_judge_is_asked_whatever_the_other_answers(tmp_path: Path) -> None:
    instructions: list[str] = []

    judge = answering(Judgement(verdict="retry", confidence=1), instructions)
    checked(tmp_path, ("llm_judge", "a"), ("llm_judge", "b"), judge=judge)

    assert instructions == ["a", "b"]


def test_one_failed_signal_fails_the_work_and_the_others_are_still_judged(tmp_path: Path) -> None:
    verdict = checked(tmp_path, ("path_exists", "gone"), ("path_exists", "."))

    assert not verdict.passed
    assert [result.passed for result in verdict.results] == [False, True]

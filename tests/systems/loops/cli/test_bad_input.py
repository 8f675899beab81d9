"""Wrong arguments of `interlock agent` are refused in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.systems.loops.machines.loop.limits import MAIL_LENGTH_MAX
from interlock.workers.engine import agent_output, printed_output
from tests.git.scene import git
from tests.systems.jobs.test_graphs import stored
from tests.systems.loops.cli.conftest import Run, RunRefused
from tests.systems.loops.lives import InProcessAgents

START = ("--repo", "repository", "--command", "true")
INITIALIZED = {"bare.git": ("--bare",), "new": ("-b", "main")}


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        *(("show", name) for name in ("Owl", "2owl", "owl/1", "owl_2", "o" * 64, "", "ö", "a b")),
        *((verb, "Owl") for verb in ("start", "stop", "send", "mail")),
    ],
)
def test_an_impossible_name_is_refused_with_the_form_of_a_name(
    run_refused: RunRefused, verb: str, name: str
) -> None:
    more = {"start": START, "send": ("hello",)}.get(verb, ())

    message = run_refused(verb, name, *more)

    start = f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
    assert message.startswith(start)


@pytest.mark.parametrize("verb", ["stop", "send", "show", "mail", "logs", "tail"])
def test_an_agent_that_was_never_started_is_refused(run_refused: RunRefused, verb: str) -> None:
    more = ("hello",) if verb == "send" else ()

    message = run_refused(verb, "cat", *more, json_too=verb not in ("logs", "tail"))

    listed = "`interlock agent list` names those that were started"
    assert message == f"the agent 'cat' was never started; {listed}"


def test_a_stopped_agent_takes_no_mail(agents: InProcessAgents, run_refused: RunRefused) -> None:
    agents.stop(agents.create("owl/1"))

    assert run_refused("send", "owl", "hello") == "the agent 'owl' has stopped; start it anew"


def test_a_name_in_use_is_not_started_again(
    agents: InProcessAgents, run_refused: RunRefused, repo: Path
) -> None:
    agents.create("owl/1")

    for command in ("true", "another"):
        message = run_refused("start", "owl", "--repo", repo, "--command", command)
        assert message == "an agent 'owl' is at work; stop it first, or choose another name"
    assert agents.mailbox.lives("owl") == ["owl/1"]


def test_the_same_command_twice_starts_one_agent(
    agents: InProcessAgents, run: Run, run_refused: RunRefused, repo: Path
) -> None:
    assert repo.name == "repository"
    assert run("start", "owl", *START).exit_code == 0

    assert "an agent 'owl' is at work" in run_refused("start", "owl", *START)
    assert agents.mailbox.lives("owl") == ["owl/1"]


@pytest.mark.parametrize(
    ("folder", "parts"),
    [
        ("none", ("none", "; ")),
        ("file.txt", ("file.txt", "; ")),
        ("folder", ("folder", "is not a git repository", "; ")),
        ("bare.git", ("bare.git", "bare", "; ")),
        ("new", ("new", "commit", "; ")),
    ],
)
def test_an_unusable_repository_is_refused_with_what_to_do(
    run_refused: RunRefused, tmp_path: Path, folder: str, parts: tuple[str, ...]
) -> None:
    (tmp_path / "file.txt").touch()
    (tmp_path / "folder").mkdir()
    if folder in INITIALIZED:
        git(tmp_path, "init", "-q", *INITIALIZED[folder], folder)

    message = run_refused("start", "owl", "--repo", folder, "--command", "true")

    assert all(part in message for part in parts), message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--grace", "0"), "grace_s: Input should be greater than or equal to 1, not 0"),
        (("--grace", "86401"), "grace_s: Input should be less than or equal to 86400, not 86401"),
        (("--session-timeout", "0"), "session_timeout_s: Input should be greater than or equal"),
        (("--max-consecutive-errors", "0"), "max_consecutive_errors: Input should be greater"),
        (("--max-total-errors", "-1"), "max_total_errors: Input should be greater than or equal"),
        (("--min-runtime", "0"), "min_runtime_s: Input should be greater than or equal to 1"),
        (("--on-mail", "--every", "5"), "give --on-mail or --every, not both"),
        (("--instructions", "none.md"), "none.md cannot be read: "),
        (("--identity", "i" * 32_001), "identity: String should have at most 32000 characters"),
        (("--command", " "), "command: must not be blank"),
        (("--command", "c" * 4_001), "command: String should have at most 4000 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_option_of_start_is_refused_with_its_field(
    run_refused: RunRefused, arguments: tuple[str, ...], sentence: str
) -> None:
    message = run_refused("start", "owl", *START, *arguments)

    assert sentence in message
    assert len(message) < 300, "the error does not repeat the whole value"


def test_instructions_that_are_not_text_are_refused_with_their_file(
    run_refused: RunRefused, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "instructions.md").write_bytes(b"\xff\xfe")

    message = run_refused(
        "start", "owl", *START, "--repo", repo, "--instructions", "instructions.md"
    )

    assert message.startswith("instructions.md cannot be read: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("x" * (MAIL_LENGTH_MAX + 1),), f"text: String should have at most {MAIL_LENGTH_MAX}"),
        (("",), "text: must not be blank"),
        (("hi", "--kind", "order"), "kind: Input should be 'message', 'task', 'status' or 'nudge'"),
        (("hi", "--as", "owl"), "owl cannot write to itself"),
        (("hi", "--as", ""), "sender: must not be blank"),
        (("hi", "--thread", "a\n## urgent"), "thread: must be one line of text"),
        (("hi", "--thread", "t" * 201), "thread: String should have at most 200 characters"),
        (("hi", "--reply-to", "r" * 201), "reply_to: String should have at most 200 characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_mail_is_refused_with_the_field_that_is_wrong(
    agents: InProcessAgents, run_refused: RunRefused, arguments: tuple[str, ...], sentence: str
) -> None:
    agents.create("owl/1")

    message = run_refused("send", "owl", *arguments)

    assert message.startswith("the mail is invalid: ")
    assert sentence in message
    assert len(message) < 300, "the error does not repeat the whole text"


def test_a_fatal_stop_needs_a_reason(agents: InProcessAgents, run_refused: RunRefused) -> None:
    agents.create("owl/1")

    assert run_refused("stop", "owl", "--fatal") == "say why with --reason"
    assert agents.record("owl/1").state == "initializing"


def test_logs_and_tail_name_the_computer_whose_worker_does_not_answer(
    agents: InProcessAgents, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents.create("owl/1")
    agents.build_prompt("owl/1", "0-0")
    monkeypatch.setenv("INTERLOCK_HOST", "barn")
    monkeypatch.setattr(printed_output, "ANSWER_S", 0)
    monkeypatch.setattr(agent_output, "ANSWER_MS", -1)

    for verb in ("logs", "tail"):
        result = run(verb, "owl")
        assert (result.exit_code, result.stdout) == (1, "")
        why = f"The worker on {agents.host}, where the output is, has not answered for"
        assert why in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("start", "owl", "--repo", "."), "--command"),
        (("start", "owl", "--command", "true"), "--repo"),
        (("start", *START), "NAME"),
        (("start", "owl", *START, "--reset-on", "never"), "--reset-on"),
        (("start", "owl", *START, "--every", "0"), "--every"),
        (("start", "owl", *START, "--grace", "soon"), "--grace"),
        (("stop", "owl", "--wait", "-1"), "--wait"),
        (("send", "owl"), "TEXT"),
        (("mail", "owl", "--limit", "0"), "--limit"),
        (("show",), "NAME"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_missing_or_malformed_argument_exits_with_2_and_is_named(
    agents: InProcessAgents, run: Run, arguments: tuple[str, ...], option: str
) -> None:
    agents.create("owl/1")
    before = stored(agents.worker)

    result = run(*arguments)

    assert result.exit_code == 2, result.output
    assert option in result.stderr
    assert result.stdout == ""
    assert stored(agents.worker) == before


def test_an_unreachable_store_is_reported_with_the_command_that_starts_one(
    agents: InProcessAgents, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del agents
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")

    result = run("list")

    assert result.exit_code == 1
    assert "`interlock up` starts a store here" in " ".join(result.stderr.split())

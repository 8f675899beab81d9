"""What is typed wrong to `interlock agent` is told in one sentence, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.machines.loops.loop.payloads import MAIL_LENGTH_MAX
from tests.workers.gateways.git.scene import git
from tests.workers.jobs.test_graphs import stored
from tests.workers.loops.cli.conftest import Refuse, Run
from tests.workers.loops.lives import Nest

START = ("--repo", "repository", "--command", "true")


@pytest.mark.parametrize("name", ["Owl", "2owl", "owl/1", "owl_2", "o" * 64, "", "ö", "a b"])
@pytest.mark.parametrize("verb", ["start", "stop", "send", "show", "mail"])
def test_a_name_that_can_be_none_is_told_what_a_name_is(
    refuse: Refuse, repo: Path, verb: str, name: str
) -> None:
    more = {"start": START, "send": ("hello",)}.get(verb, ())

    told = refuse(verb, name, *more)

    start = f"{name!r} is no agent's name: a lower-case letter, then letters, digits and -"
    assert told.startswith(start)
    assert repo.is_dir()


@pytest.mark.parametrize("verb", ["stop", "send", "show", "mail", "logs", "tail"])
def test_who_was_never_started_is_told_so(refuse: Refuse, verb: str) -> None:
    more = ("hello",) if verb == "send" else ()

    told = refuse(verb, "cat", *more, json_too=verb not in ("logs", "tail"))

    assert told == "the agent 'cat' was never started"


def test_who_has_stopped_takes_no_mail(nest: Nest, refuse: Refuse) -> None:
    nest.ended(nest.born("owl/1"))

    assert refuse("send", "owl", "hello") == "the agent 'owl' has stopped; start it anew"


def test_a_name_in_use_is_not_started_again(nest: Nest, refuse: Refuse, repo: Path) -> None:
    nest.born("owl/1")

    for command in ("true", "another"):
        told = refuse("start", "owl", "--repo", repo, "--command", command)
        assert told == "an agent 'owl' is at work; stop it first, or choose another name"
    assert nest.mailbox.lives("owl") == ["owl/1"]


def test_the_same_words_twice_start_one_agent(
    nest: Nest, run: Run, refuse: Refuse, repo: Path
) -> None:
    assert repo.name == "repository"
    assert run("start", "owl", *START).exit_code == 0

    assert "an agent 'owl' is at work" in refuse("start", "owl", *START)
    assert nest.mailbox.lives("owl") == ["owl/1"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("none", ("none", "; ")),
        ("file.txt", ("file.txt", "; ")),
        ("folder", ("folder", "is not a git repository", "; ")),
        ("bare.git", ("bare.git", "bare", "; ")),
        ("new", ("new", "commit", "; ")),
    ],
)
def test_a_repository_that_is_none_is_told_with_what_to_do(
    refuse: Refuse, tmp_path: Path, place: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "file.txt").touch()
    (tmp_path / "folder").mkdir()
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    git(tmp_path, "init", "-q", "-b", "main", "new")

    told = refuse("start", "owl", "--repo", place, "--command", "true")

    assert all(word in told for word in words), told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("words", "sentence"),
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
    ids=lambda given: str(given)[:40],
)
def test_what_an_agent_cannot_be_started_with_is_told_by_its_field(
    refuse: Refuse, repo: Path, words: tuple[str, ...], sentence: str
) -> None:
    told = refuse("start", "owl", "--repo", repo, "--command", "true", *words)

    assert sentence in told
    assert len(told) < 300, "what was given is not repeated whole"


def test_instructions_that_are_no_text_are_told_with_their_file(
    refuse: Refuse, repo: Path, tmp_path: Path
) -> None:
    (tmp_path / "orders.md").write_bytes(b"\xff\xfe")

    told = refuse("start", "owl", *START, "--repo", repo, "--instructions", "orders.md")

    assert told.startswith("orders.md cannot be read: ")


@pytest.mark.parametrize(
    ("words", "sentence"),
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
    ids=lambda given: str(given)[:40],
)
def test_mail_of_another_shape_is_told_by_what_is_wrong_with_it(
    nest: Nest, refuse: Refuse, words: tuple[str, ...], sentence: str
) -> None:
    nest.born("owl/1")

    told = refuse("send", "owl", *words)

    assert told.startswith("the mail is invalid: ")
    assert sentence in told
    assert len(told) < 300, "no letter is repeated whole"


def test_a_fatal_end_needs_its_reason(nest: Nest, refuse: Refuse) -> None:
    nest.born("owl/1")

    assert refuse("stop", "owl", "--fatal") == "say why with --reason"
    assert nest.record("owl/1").state == "initializing"


def test_what_was_printed_on_another_machine_is_told_to_be_there(
    nest: Nest, refuse: Refuse
) -> None:
    nest.born("owl/1", host="barn")

    for verb in ("logs", "tail"):
        told = refuse(verb, "owl", json_too=False)
        assert told == "owl lives on barn, and so does what it printed"


@pytest.mark.parametrize(
    ("words", "option"),
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
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else given,
)
def test_a_command_line_with_something_missing_ends_with_2_and_names_it(
    nest: Nest, run: Run, words: tuple[str, ...], option: str
) -> None:
    nest.born("owl/1")
    before = stored(nest.worker)

    result = run(*words)

    assert result.exit_code == 2, result.output
    assert option in result.stderr
    assert result.stdout == ""
    assert stored(nest.worker) == before


def test_a_store_that_is_away_is_told_with_what_starts_one(
    nest: Nest, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del nest
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")

    result = run("list")

    assert result.exit_code == 1
    assert "`interlock up` starts a store here" in " ".join(result.stderr.split())

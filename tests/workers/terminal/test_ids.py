"""What each command says of an id that no record has, and of the id of a record of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.systems.jobs.client import Graphs
from interlock.workers.cli import LazyGroup, loaded
from interlock.workers.client import Client
from tests.systems.threads.threads import bring
from tests.workers.terminal.conftest import Run

# The options and further arguments that a command needs, behind its id.
MORE = {
    "fire": ("dismissed",),
    "decide": ("approve",),
    "handoff": ("--to", "ann", "--kind", "team", "--reference", "r"),
    "task split": ("--subtasks", '[{"title": "one"}, {"title": "two"}]'),
    "task claim": ("--owner", "me"),
    "job config": ("--slots", "1"),
    "job reject": ("--reason", "a"),
    "job force-success": ("--reason", "a"),
    "job restep": ("--phase", "a"),
    "agent send": ("hello",),
    "plan show": ("p",),
    "plan approve": ("p",),
    "plan reject": ("p",),
}
NO_RECORD = "there is no record 'nothing'"
# Commands of a group, with what they say of the id `nothing`, and of `paper`, which is a thread.
# Where they say nothing of that, they take the id of any record.
SAID: tuple[tuple[str, str, str, str], ...] = (
    ("", "list --parent, show, history, explain, events, verify", NO_RECORD, ""),
    ("", "cancel, pause, resume, retry, fire, decide, cleanup, handoff", NO_RECORD, ""),
    (
        "task ",
        "unblock, cancel, requeue, retry, approve, reject, logs, tail, diff, split",
        NO_RECORD,
        "paper is a thread, not a task: `interlock explain paper` names",
    ),
    ("task ", "replay", NO_RECORD, "it is of the machine thread, not a task"),
    (
        "task ",
        "list, list-failed, replay --all, fail-stage, claim",
        "there is no backlog 'nothing'; there are: b",
        "there is no backlog 'paper'; there are: b",
    ),
    (
        "agent ",
        "workers, trust",
        "there is no backlog 'nothing'; there are: b",
        "no backlog 'paper'",
    ),
    ("plan ", "list, show, approve, reject", "there is no backlog 'nothing'", "no backlog 'paper'"),
    (
        "job ",
        "config, activate, suspend, resume, pause, unpause, cancel, status, list, export, graph",
        "there is no graph 'nothing'; `interlock job list` names",
        "paper is a thread, not a graph: `interlock explain paper` names",
    ),
    (
        "job ",
        "step, run, approve, reject, resubmit, terminate, force-success, restep, waive, show",
        NO_RECORD,
        "paper is a thread, not a job: `interlock explain paper` names",
    ),
    ("agent ", "promote, retire", NO_RECORD, "paper is a thread, not an identity"),
    ("agent ", "abort", NO_RECORD, "paper is a thread, not an agent"),
    (
        "agent ",
        "stop, send, show, mail, logs, tail",
        "the agent 'nothing' was never started; `interlock agent list` names",
        "paper is of the machine thread, not a long-lived agent; `interlock agent list`",
    ),
    (
        "webhook ",
        "dead, replay --all",
        "there is no endpoint 'nothing'; there are: chat",
        "there is no endpoint 'paper'; there are: chat",
    ),
    ("webhook ", "replay", NO_RECORD, "paper is a thread, not a delivery"),
)
# Ids of other kinds that look like those that a command wants.
ALIKE = (
    (("task", "claim", "nightly/fetch", "--owner", "me"), "nightly/fetch is a job, not a task"),
    (("job", "cancel", "b/one"), "b/one is a task, not a job"),
    (("agent", "show", "scout/1"), "scout/1 is a life of the agent scout: give that name"),
)
# Commands whose arguments are files, new names, or ids of what is no record.
OTHERS = {
    *(
        "up",
        "apply",
        "plan plan",
        "plan check",
        "plan submit",
        "submit",
        "job create",
        "agent start",
    ),
    *("machines", "report", "run start", "run redo", "run tell", "run export", "run import"),
    *("agent known", "task turn", "token create", "token revoke"),
    *("rejected show", "rejected replay", "rejected drop"),
}


ENDPOINTS = (
    "endpoints: [{name: chat, url: https://chat.example, secrets: [whsec_" + "A" * 44 + "]}]"
)


@pytest.fixture
def records(interlock: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return a client of a store with a thread, a task, a job, a long-lived agent, an endpoint."""
    (tmp_path / "webhooks.yaml").write_text(ENDPOINTS)
    monkeypatch.setenv("INTERLOCK_WEBHOOKS", str(tmp_path / "webhooks.yaml"))
    bring(interlock, "paper", "awaiting_confirmation")
    interlock.submit({"title": "mend it"}, id="b/one", machine="task")
    Graphs(interlock).create("nightly/fetch", {"phases": [{"worker": {"command": "true"}}]})
    loop = {"repo": "/r", "command": "true", "host": "other-host", "next": "on_mail"}
    interlock.submit(loop, id="scout/1", machine="loop")
    return interlock


def parameters() -> Iterator[tuple[str, Any]]:
    """Yield each argument and option of each command, with the words of the command."""
    commands: list[tuple[tuple[str, ...], Any]] = [
        ((name,), loaded(name)) for name in LazyGroup().commands
    ]
    for words, command in commands:
        commands += [((*words, name), each) for name, each in inner_of(command).items()]
        yield from ((" ".join(words), one) for one in command.params if not inner_of(command))


def inner_of(command: Any) -> dict[str, Any]:
    """Return the commands of a group; none of what is no group."""
    return dict(getattr(command, "commands", {}))


def test_every_argument_and_option_has_a_help() -> None:
    assert [(words, one.name) for words, one in parameters() if not one.help] == []


def test_every_command_with_an_argument_is_listed_here() -> None:
    listed = {f"{group}{name}" for group, names, _, _ in SAID for name in names.split(", ")}

    assert {words for words, one in parameters() if one.param_type_name == "argument"} == OTHERS | {
        words for words in listed if "--" not in words
    }


@pytest.mark.parametrize(("group", "names", "of_unknown", "of_thread"), SAID)
def test_a_command_says_that_no_record_has_an_id_or_what_it_is_the_id_of(
    records: Client, run: Run, group: str, names: str, of_unknown: str, of_thread: str
) -> None:
    before = records.show("paper").version
    for command in (f"{group}{name}" for name in names.split(", ")):
        for record_id, said in (("nothing", of_unknown), ("paper", of_thread)):
            if said:
                result = run(*command.split(), record_id, *MORE.get(command, ()))
                assert result.exit_code == 1, (command, result.output)
                assert said in result.output, command
    assert records.show("paper").version == before


@pytest.mark.parametrize(("command", "said"), ALIKE)
def test_an_id_that_looks_right_is_said_to_be_of_another_kind(
    records: Client, run: Run, command: tuple[str, ...], said: str
) -> None:
    del records
    result = run(*command)

    assert result.exit_code == 1
    assert said in result.output

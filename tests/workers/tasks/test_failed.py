"""Dead letters: what each try said, and what a person's replay does and does not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.store import views
from interlock.kernel.table import Active
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps import orphans
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.tasks.client import Tasks
from interlock.workers.tasks.effects.recovery import recovery
from interlock.workers.tasks.failed import DeadLetters
from tests.waiting import until
from tests.workers.engine.running import settings_for
from tests.workers.threads.threads import bring, client_of

Run = Callable[..., Any]


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def run(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what types a command about tasks."""
    for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
        monkeypatch.setenv(f"INTERLOCK_{name}", value)
    return lambda *words: CliRunner().invoke(app, ["task", *words])


def submitted(here: Client, name: str, *, backlog: str = "b", max_retries: int = 0) -> str:
    payload = {"title": f"mend {name}", "max_retries": max_retries}
    return Tasks(here).submit(payload, backlog=backlog, name=name).id


def fails(here: Client, of: str, **told: Any) -> None:
    """Let somebody claim a task and fail."""
    claim = Tasks(here).claim(of, owner="ann")
    Tasks(here).report(claim.key, claim.token, "started")
    Tasks(here).report(claim.key, claim.token, "failed", told)


def dead(here: Client, name: str, *, backlog: str = "b") -> str:
    of = submitted(here, name, backlog=backlog)
    fails(here, of, reason="no luck")
    return of


def test_a_dead_letter_says_what_each_try_said_and_how_it_is_replayed(here: Client) -> None:
    of = submitted(here, "one", max_retries=1)
    fails(here, of, reason="the context was full", why="prompt_too_long", code="stopped")
    here.fire(of, "retried")
    fails(here, of, reason="it timed out", abort="timeout", paths=["src/a.py"])

    letter, *more = DeadLetters(here).letters("b")

    assert not more
    assert (letter.id, letter.title, letter.since) == (
        of,
        "mend one",
        here.show(of).since_ms / 1_000,
    )
    assert (letter.reason, letter.paths) == ("it timed out", ("src/a.py",))
    assert (letter.code, letter.transition_reason, letter.abort_reason) == (
        "",
        "aborted",
        "timeout",
    )
    assert (letter.retries, letter.max_retries, letter.crashes) == (1, 1, 0)
    first, second = letter.tries
    assert (first.number, first.trigger, first.actor) == (1, "failed", "agent")
    assert (first.reason, first.code) == ("the context was full", "stopped")
    assert (first.transition_reason, first.abort_reason) == ("prompt_too_long", None)
    assert (second.number, second.reason, second.abort_reason) == (2, "it timed out", "timeout")
    assert first.timestamp < second.timestamp == letter.since
    assert letter.replay == f"interlock task replay {of}"
    assert json.loads(json.dumps(letter.as_data()))["tries"][1]["to_status"] == "failed"


def gone_at_once() -> Machine:
    """Return the task's machine, whose lost agents are sure to be gone with their leases."""
    machine = MACHINES["task"]
    agent = replace(machine.effects["agent"], grace_ms=1)
    stages = [
        replace(stage, effect=agent)
        if isinstance(stage, Active) and stage.state == "claimed"
        else stage
        for stage in machine.stages
    ]
    return replace(machine, stages=tuple(stages))


def test_a_lost_agent_is_among_the_tries(server: EmbeddedServer, prefix: str) -> None:
    settings, machine = settings_for(server.url, prefix, INTERLOCK_LEASE_S="0.3"), gone_at_once()
    here = Client(settings, machines={**MACHINES, "task": machine})
    runner = Runner(here.dispatch, Resources(settings))
    of = submitted(here, "one")
    claim = Tasks(here).claim(of, owner="ann")
    Tasks(here).report(claim.key, claim.token, "started")

    def lost() -> bool:
        orphans.run(here.dispatch, partition_of(of))
        return here.show(of).state == "orphaned"

    def recovered() -> bool:
        (owed,) = (one for one in here.show(of).entries if one.name == "recovery")
        runner.perform(machine, "recovery", recovery, owed.key(of))
        return here.show(of).state == "open"

    until(lost, what="the lease lapses")
    until(recovered, what="the place is free")
    fails(here, of, reason="no luck")

    (letter,) = DeadLetters(here).letters()

    assert letter.crashes == 1
    assert [(one.number, one.trigger, one.actor) for one in letter.tries] == [
        (1, "orphaned", "orphans"),
        (1, "requeued", "recovery"),
        (2, "failed", "agent"),
    ]
    assert letter.tries[1].transition_reason == "orphan_recovered"


def test_what_is_tried_again_by_itself_and_what_is_elsewhere_is_not_listed(here: Client) -> None:
    older, newer = dead(here, "older"), dead(here, "newer")
    fails(here, submitted(here, "again", max_retries=3), reason="no")
    submitted(here, "waiting")
    other = dead(here, "other", backlog="c")

    assert [letter.id for letter in DeadLetters(here).letters("b")] == [older, newer]
    assert {letter.id for letter in DeadLetters(here).letters()} == {older, newer, other}
    assert DeadLetters(here).letters("nobody") == []


def test_a_replay_opens_dead_letters_and_says_why_it_opened_no_other(here: Client) -> None:
    of, again = dead(here, "one"), submitted(here, "again", max_retries=3)
    fails(here, again, reason="no")
    waiting = submitted(here, "waiting")
    bring(here, "mail", "awaiting_inference")

    names = [of, again, waiting, "mail", "b/nobody", of]
    done = DeadLetters(here).replay(names, reason="the network is back")

    assert [(one.id, one.replayed) for one in done] == [
        (of, True),
        *((name, False) for name in names[1:]),
    ]
    why = [one.reason for one in done[1:]]
    assert why[0].startswith("it is tried again by itself")
    assert why[1:3] == ["it is open, not failed", "it is no task, but a record of thread"]
    assert "b/nobody" in why[3]
    assert why[4] == "it is open, not failed"
    record = here.show(of)
    assert (record.state, record.data["retries"], record.data["given_up"]) == ("open", 1, False)
    last = DeadLetters(here).views.history(of)[-1]
    assert (last.cause.actor, last.cause.reason) == ("tester", "the network is back")  # type: ignore[union-attr]


def test_a_whole_backlog_is_replayed_once_each_page_by_page(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    names = [dead(here, f"n{n}") for n in range(7)]
    other = dead(here, "other", backlog="c")

    done = DeadLetters(here).replay_all("b")

    assert [one.id for one in done if one.replayed] == names
    assert DeadLetters(here).replay_all("b") == []
    assert here.show(other).state == "failed"


def test_a_failure_that_nobody_saw_is_not_replayed(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = dead(here, "one")
    seen = here.show(of)
    here.fire(of, "retried")
    fails(here, of, reason="another reason")
    monkeypatch.setattr(here, "show", lambda _: seen)

    (done,) = DeadLetters(here).replay([of])

    assert not done.replayed
    monkeypatch.undo()
    assert here.show(of).state == "failed"


def test_the_command_line_lists_and_replays(here: Client, run: Run) -> None:
    of = dead(here, "one")

    listed = json.loads(run("dead-letters", "b", "--json").stdout)
    drawn = run("dead-letters").stdout
    replayed = run("replay", of, "b/nobody", "--as", "ann", "--json")
    again = run("replay", "--all", "b")
    refused = run("replay", of)

    assert [(one["id"], one["reason"]) for one in listed] == [(of, "no luck")]
    for words in ("mend one", "no luck", "claim 1  failed by agent", f"task replay {of}"):
        assert words in drawn
    assert replayed.exit_code == 0
    rows = {row["id"]: row["replayed"] for row in json.loads(replayed.stdout)}
    assert rows == {of: True, "b/nobody": False}
    assert (again.exit_code, "nothing to replay" in again.stdout) == (1, True)
    assert (refused.exit_code, "not replayed" in refused.stdout) == (1, True)
    assert "it is open, not failed" in refused.stdout
    assert "no dead letters" in run("dead-letters", "b").stdout


@pytest.mark.parametrize("words", [(), ("b/one", "--all", "b")])
def test_either_tasks_or_a_backlog_is_replayed(run: Run, words: tuple[str, ...]) -> None:
    done = run("replay", *words, "--json")

    assert (done.exit_code, json.loads(done.stdout)["error"]) == (1, "UsageError")

"""Why a record waits, what would move it, and what a trigger would do, as commands say it."""

from __future__ import annotations

import re

from interlock.kernel.machines import MACHINES
from interlock.systems.tasks.client import Tasks
from interlock.workers.cli import loaded
from interlock.workers.client import Client
from interlock.workers.engine.system import load
from interlock.workers.systems import systems
from tests.systems.threads.threads import bring, thread_payload
from tests.workers.terminal.conftest import Run, RunJson


def test_an_answer_of_a_card_is_explained_by_its_name(interlock: Client, run_json: RunJson) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    assert run_json("explain", "one", "approve")["accepted"]


def test_a_retry_of_no_effect_names_the_command_that_the_system_has_instead(
    interlock: Client, run: Run
) -> None:
    tasks = Tasks(interlock)
    tasks.submit({"title": "Fix it", "max_retries": 2}, backlog="b", name="one")
    claim = tasks.claim("b/one", owner="ann")
    tasks.report(claim.key, claim.token, "failed", {"reason": "no luck"})

    result = run("retry", "b/one")

    assert result.exit_code == 1
    assert "no effect of b/one, which is failed, waits for another attempt" in result.stderr
    assert "`interlock task retry b/one` (retried)" in result.stderr


def test_why_a_record_waits_is_explained_with_who_may_fire_what(
    interlock: Client, run: Run, run_json: RunJson
) -> None:
    bring(interlock, "one", "awaiting_confirmation")

    found = run_json("explain", "one")
    fired = run("fire", "one")

    [asked] = [wait for wait in found["waits"] if wait["what"].startswith("a person: May this be")]
    ways = {each["trigger"]: each for each in found["triggers"]}
    approved, late = ways["execute"], ways["timeout"]
    assert asked["since_ms"] == interlock.show("one").since_ms
    assert approved["by"] == ["person"]
    assert approved["command"] == "interlock decide one approve --proposal one:10"
    assert (late["by"], late["command"]) == (["stalls"], "")
    assert fired.exit_code == 2
    assert re.search(r"handed_off .*interlock fire one handed_off .*--payload", fired.stdout)


def test_each_command_that_is_named_for_a_trigger_is_there_and_a_person_may_fire_it() -> None:
    for system in filter(None, (system.by_hand for system in systems())):
        for name, command in load(system).items():
            machine, _, trigger = name.partition(".")
            group, called, *_ = command.split()
            rows = [row for row in MACHINES[machine].transitions if row.trigger == trigger]
            assert not trigger or any({"person", "producer"} & {*row.by} for row in rows), name
            assert called in loaded(group).commands, command


def test_a_trigger_is_explained_for_programs(interlock: Client, run_json: RunJson) -> None:
    interlock.submit(thread_payload(), machine="thread", id="one")

    found = run_json("explain", "one", "dismissed_by_user", "--payload", '{"reason": "enough"}')
    refused = run_json("explain", "one", "execute")

    assert (found["accepted"], found["target"]) == (True, "dismissed")
    assert (refused["accepted"], refused["target"], refused["trigger"]) == (False, "", "execute")
    assert "legal here" in refused["answer"]

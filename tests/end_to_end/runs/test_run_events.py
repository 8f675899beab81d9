"""Events of runs: those sent from outside, and those that a follower reads."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError
from tests.end_to_end.runs.workspaces import RunWorkspace
from tests.processes import is_alive


def test_events_from_outside_are_applied_in_order_and_refused_ones_are_answered(
    workspace: RunWorkspace,
) -> None:
    workspace.start("""
    codons:
      - {codon: one, speaks: interlock, command: session; did; hold agent}
      - {codon: two, command: did}
    """)
    agent = workspace.wait_for_cue("agent")
    workspace.wait_for_state("running")
    with pytest.raises(InvalidPayloadError, match="type"):
        workspace.send_event("CodonVanished", codon="one")
    moved: dict[str, Any] = {"codon": "one", "from": "running"}
    skipped: dict[str, Any] = {"to": "skipped", "metadata": {"skipped_during": "running"}}
    sent = [
        workspace.send_event("CostsUpdated", codon="one", cost=100),
        workspace.send_event("CostsIncremented", codon="one", cost_delta=1, run="99"),
        workspace.send_event("CostsIncremented", codon="nine", cost_delta=1),
        workspace.send_event(
            "CodonTransitioned", **{**moved, "from": "completed", "to": "running"}
        ),
        workspace.send_event("CodonTransitioned", **moved, to="completed"),
        workspace.send_event("CodonTransitioned", **moved, to="starting"),
        workspace.send_event("CodonStarted", codon="three"),
        workspace.send_event("RunStarted", run_folder="/x", branch="b"),
        workspace.send_event("CostsIncremented", codon="one", cost_delta=20, op_id="twenty"),
        workspace.send_event("CostsIncremented", codon="one", cost_delta=20, op_id="twenty"),
        workspace.send_event("AssistantMessageCountUpdated", codon="one", new_count=9),
        workspace.send_event("CodonFinalCostSet", codon="one", final_cost=77),
        workspace.send_event("CostsIncremented", codon="one", cost_delta=5),
        workspace.send_event("CodonTransitioned", **moved, **skipped),
    ]
    workspace.wait_for_answer(sent[-1])

    notes = [workspace.runs.answer(receipt) for receipt in sent]
    answers = [str(note.detail.get("why", "")) if note else "unread" for note in notes]
    run = workspace.last.id
    assert answers == [
        "",
        f"there is no run 99 of {workspace.record.id}",
        f"there is no codon nine in run {run}",
        "Invalid transition from running to running",
        "Missing required metadata for transition to completed: checkpoint_sha",
        "Invalid transition from running to starting",
        answers[6],
        answers[7],
        *("", "", "", ""),
        answers[12],
        "",
    ]
    assert "supervisor starts its codons" in answers[6]
    assert "is running there" in answers[7]
    assert "final" in answers[12]
    assert sent[8].id == sent[9].id
    assert {note.detail["sender"] for note in notes if note} == {"outside"}
    workspace.wait_for_end(workspace.last)
    assert workspace.codon_states() == ["one skipped", "two completed"]
    assert not is_alive(agent)
    assert workspace.codon().data["partial_cost"] == 77
    of_one = [one.trigger for one in workspace.deployment.events(workspace.codon().id)]
    assert of_one[4:] == [
        *("costs_updated", "costs_incremented", "assistant_message_count_updated"),
        *("codon_final_cost_set", "skip"),
    ]
    late = workspace.wait_for_answer(
        workspace.send_event("CostsIncremented", codon="one", cost_delta=5)
    )
    assert late.kind == "event_refused"
    assert workspace.check_costs()["run_spent"] == 77


def test_costs_while_sentinels_finish_count_and_those_after_the_end_do_not(
    workspace: RunWorkspace,
) -> None:
    workspace.start("""
    sentinels: {slow: {on: [codon_transitioned], command: "true; hold sentinel"}}
    codons:
      - {codon: one, sentinels: [slow], speaks: interlock, command: session; cost 10; result}
    """)
    workspace.wait_for_state("completing_sentinels")
    late = [workspace.send_event("CostsIncremented", codon="one", cost_delta=n) for n in (1, 2, 4)]
    assert workspace.wait_for_answer(late[-1]).kind == "event_applied"
    workspace.release("sentinel")
    workspace.wait_for_end(workspace.last)

    after = workspace.wait_for_answer(
        workspace.send_event("CostsIncremented", codon="one", cost_delta=100)
    )

    assert after.kind == "event_refused"
    assert workspace.codon().data["final_cost"] == 17
    assert workspace.check_costs()["total"] == 17


THREE = """
codons:
  - {codon: one, rig: [{command: {run: "echo rigged > rig.txt"}}], command: did}
  - {codon: two, speaks: interlock, command: session; did; cost 5; result}
  - {codon: three, speaks: interlock, command: session; did; cost 7; result}
"""


def test_a_follower_that_starts_again_from_its_last_position_misses_and_repeats_nothing(
    workspace: RunWorkspace,
) -> None:
    run = workspace.start(THREE)
    applied: list[Any] = []
    position = "0-0"
    while not (applied and applied[-1].ends):
        for one in workspace.runs.follow(workspace.record, position):
            position = one.position
            applied.append(one)
            if len(applied) % 3 == 0 or one.ends:
                break
    workspace.wait_for_end(run)

    assert applied == workspace.applied_events()
    rows = workspace.deployment.client.dispatch.views.family_log(workspace.record.id, "0-0", 1_000)
    assert [one.position for one in applied] == [row[0] for row in rows]
    versions: dict[str, list[int]] = {}
    for _, record_id, version in rows:
        versions.setdefault(record_id, []).append(version)
    for name, found in versions.items():
        assert found == [event.version for event in workspace.deployment.events(name)]

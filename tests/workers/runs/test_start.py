"""With what a run begins: its number, its plan, what counts already; and when it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import InvalidPayloadError, MissedError
from interlock.kernel.machines.runs.values import MICRO_MAX
from interlock.kernel.record import Record, partition_of
from interlock.kernel.store.scripts import read, read_all
from interlock.workers.engine.sweeps import prune
from interlock.workers.runs.history import stored
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.sequence import Execution, StrangeHistoryError
from interlock.workers.runs.start import Begin, RunRefusedError, begin, newest, open_workspace
from tests.kernel.store.machines_runs import CONDUCTOR, HOLDER, complete, settle, tell
from tests.workers.runs.workspaces import CAUSE, Scene
from tests.workers.threads.threads import client_of

LATER_MS = 3_600_000
LOOKS_MAX = 3


def plan(*names: str) -> dict[str, Any]:
    """Return a stored plan of these codons."""
    steps = [{"id": name, "command": "true"} for name in names]
    return {"name": "-".join(names), "steps": steps}


TIDY, OTHER = plan("sort", "sweep"), plan("wash", "dry")


def begun(scene: Scene, what: dict[str, Any], sha: str = "") -> str:
    """Begin a run of a plan; with its initial checkpoint, where that is given."""
    run = begin(scene.dispatch, scene.open(), Begin(what, {"kind": "fresh"}), CAUSE).id
    if sha:
        tell(scene.world, "InitialCheckpointSet", run, sha=sha)
    return run


def does(scene: Scene, run: str, number: int, name: str, sha: str) -> str:
    """Complete a codon of a run, and return its record's id."""
    of = f"{run}/{number}"
    scene.world.create(of, {"codon_id": name}, machine="codon", initial_lease=HOLDER)
    scene.move(of, "preparing", "starting")
    scene.move(of, "starting", "initializing", pid=7, log_path="x.log")
    scene.move(of, "initializing", "running", session_id="s")
    scene.move(of, "running", "completed", checkpoint_sha=sha, result_message_received=True)
    return of


def fails(scene: Scene, run: str, codon: str = "") -> None:
    """End a run."""
    scene.world.fire(run, "fail", {"reason": "enough", **({"codon": codon} if codon else {})})
    settle(scene.world, run)


def rescues(scene: Scene, run: str, **shas: str) -> None:
    """Give a run its initial checkpoint, before which the workspace was rescued."""
    scene.world.fire(run, "initial_checkpoint_set", shas, warrant=CONDUCTOR)


def runs(scene: Scene) -> int:
    return newest(scene.dispatch, scene.id)


# --- the next number ---------------------------------------------------------------------------


def test_the_newest_run_is_found_in_a_few_looks_however_many_there_are(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, keys = scene.dispatch.views, scene.world.keys
    births, looks = views.births, list[int]()

    def counted(names: Any) -> dict[str, str]:
        looks.append(1)
        return births(names)

    monkeypatch.setattr(views, "births", counted)
    there = 0
    for number in (0, 1, 2, 3, 199, 200, 201, 4_115, 5_000):
        new = [keys.record(f"{scene.id}/{n}") for n in range(there + 1, number + 1)]
        read_all(scene.world.client, [("HSET", key, "birth", "x") for key in new])
        there = number
        looks.clear()
        assert newest(scene.dispatch, scene.id) == number
        assert len(looks) <= LOOKS_MAX


# --- what counts, and in whose words -----------------------------------------------------------


def test_a_continuation_that_never_began_hands_on_what_counted_for_it(scene: Scene) -> None:
    run = begun(scene, TIDY, "a" * 40)
    first = does(scene, run, 1, "sort", "b" * 40)
    fails(scene, run, "sweep")
    unborn = scene.runs.proceed(scene.folder)
    fails(scene, unborn.id)

    again = scene.runs.proceed(scene.folder)

    assert [one["record"] for one in unborn.data["done"]] == [first]
    assert again.data["done"] == unborn.data["done"]
    assert again.data["starting"] == unborn.data["starting"]
    assert again.data["starting"]["source"]["checkpoint_sha"] == "b" * 40


def test_a_rollback_to_a_run_of_another_plan_goes_on_with_that_plan(scene: Scene) -> None:
    first = begun(scene, TIDY, "a" * 40)
    does(scene, first, 1, "sort", "b" * 40)
    fails(scene, first)
    second = begun(scene, OTHER, "c" * 40)
    does(scene, second, 1, "wash", "d" * 40)
    fails(scene, second)

    back = scene.runs.rollback(scene.folder, "b" * 8)

    assert back.data["plan"] == TIDY
    assert [one["codon_id"] for one in back.data["done"]] == ["sort"]
    assert back.data["starting"]["source"]["run_id"] == first


def test_what_was_rescued_is_gone_back_to_with_the_plan_by_which_it_was_made(
    scene: Scene,
) -> None:
    first = begun(scene, TIDY, "a" * 40)
    does(scene, first, 1, "sort", "b" * 40)
    fails(scene, first)
    second = begun(scene, OTHER, "c" * 40)
    done = does(scene, second, 1, "wash", "d" * 40)
    fails(scene, second)
    back = scene.runs.rollback(scene.folder, "b" * 8)
    rescues(scene, back.id, sha="b" * 40, rescued="e" * 40)
    fails(scene, back.id)

    again = scene.runs.rollback(scene.folder, "e" * 8)

    assert again.data["plan"] == OTHER
    assert [one["record"] for one in again.data["done"]] == [done]
    assert again.data["starting"]["source"]["run_id"] == second


@pytest.mark.parametrize(("name", "iteration"), [("wash", None), ("sort", 0)])
def test_what_a_plan_does_not_have_cannot_count_for_it_and_nothing_begins(
    scene: Scene, name: str, iteration: int | None
) -> None:
    strange = Execution(codon_id=name, iteration=iteration, status=Ended.COMPLETED)

    with pytest.raises(StrangeHistoryError):
        begin(scene.dispatch, scene.open(), Begin(TIDY, {"kind": "fresh"}, (strange,)), CAUSE)

    assert runs(scene) == 0


def test_what_counts_is_kept_as_it_was(scene: Scene) -> None:
    one = Execution(codon_id="sort", iteration=None, status=Ended.SKIPPED, messages=2)

    run = begin(scene.dispatch, scene.open(), Begin(TIDY, {"kind": "fresh"}, (one,)), CAUSE)

    assert run.data["done"] == [stored(one)]


def test_a_codon_at_which_its_run_ended_can_be_done_anew_though_it_never_began(
    scene: Scene,
) -> None:
    run = begun(scene, TIDY, "a" * 40)
    does(scene, run, 1, "sort", "b" * 40)
    fails(scene, run, "sweep")

    again = scene.runs.redo(scene.folder)

    assert again.data["starting"]["source"]["after_codon"] == "sort"
    assert [one["codon_id"] for one in again.data["done"]] == ["sort"]


def test_the_next_run_begins_whatever_nonsense_was_told_of_costs(scene: Scene) -> None:
    run = scene.begin()
    codon = scene.codon(run, cost=MICRO_MAX, upto="running")
    for _ in range(2):
        tell(scene.world, "CostsIncremented", codon, cost_delta=MICRO_MAX)
    done = {"checkpoint_sha": "b" * 40, "result_message_received": True}
    scene.move(codon, "running", "completed", **done)
    fails(scene, run)

    begun(scene, TIDY)

    assert scene.world.record(codon).data["final_cost"] == MICRO_MAX
    assert scene.world.record(f"{scene.id}/2").data["before"]["spent"] == MICRO_MAX
    assert scene.runs.costs(scene.folder, since=2) == {
        "run": 0,
        "run_spent": 0,
        "run_late": 0,
        "total": MICRO_MAX,
        "total_spent": MICRO_MAX,
        "since": 0,
        "since_spent": 0,
    }


# --- what is refused ---------------------------------------------------------------------------


def test_a_run_that_did_all_of_its_plan_is_not_gone_on_with(scene: Scene) -> None:
    run = begun(scene, TIDY, "a" * 40)
    does(scene, run, 1, "sort", "b" * 40)
    does(scene, run, 2, "sweep", "c" * 40)
    complete(scene.world, run)
    settle(scene.world, run)
    before = scene.world.dump()

    with pytest.raises(RunRefusedError, match="nothing of its plan is left to do; `redo` or"):
        scene.runs.proceed(scene.folder)

    assert scene.world.dump() == before


def test_a_workspace_is_not_closed_while_an_event_is_not_answered(scene: Scene) -> None:
    run = begun(scene, TIDY)
    fails(scene, run)
    event: Any = {"type": "RunFailed", "data": {"run_id": run, "reason": "no"}}
    mail = {"sender": "outside", "event": event}
    scene.dispatch.post(scene.id, mail, "told-once")

    with pytest.raises(RunRefusedError, match="an event that was told is not answered yet"):
        scene.runs.close(scene.folder)

    assert scene.open().state == "open"


def test_a_folder_whose_workspace_is_forgotten_says_so_in_a_sentence(
    scene: Scene, tmp_path: Path
) -> None:
    scene.runs.close(scene.folder)
    settle(scene.world, scene.id)
    settings = scene.dispatch.settings
    more: dict[str, Any] = {"prune_after_s": 0.001, "archive": tmp_path / "archive"}
    pruning = client_of(settings.store_url, settings.prefix, **more).dispatch
    partition = partition_of(scene.id)
    # As if it had been closed long ago.
    read(scene.world.client, "ZADD", scene.world.keys.ended(partition), 1, scene.id)
    assert prune.run(pruning, partition)["pruned"] == 1

    with pytest.raises(RunRefusedError, match="was closed and is forgotten; its name stays taken"):
        open_workspace(scene.dispatch, scene.folder, CAUSE)


# --- what was heard ----------------------------------------------------------------------------


@pytest.fixture
def opened(scene: Scene) -> Record:
    """Return a workspace in which a run has ended."""
    fails(scene, begun(scene, TIDY, "a" * 40))
    return scene.open()


def test_who_follows_from_a_position_that_is_gone_is_told_so(scene: Scene, opened: Record) -> None:
    positions = [one.position for one in scene.runs.heard(opened)]
    assert [one.position for one in scene.runs.heard(opened, positions[0])] == positions[1:]
    assert scene.runs.heard(opened, positions[-1]) == []
    key = scene.world.keys.chronicle(opened.id)
    read(scene.world.client, "XTRIM", key, "MAXLEN", "=", 1)

    for gone in positions[:-1]:
        with pytest.raises(MissedError, match=f"what came after {gone} in {opened.id}"):
            scene.runs.heard(opened, gone)
    assert [one.position for one in scene.runs.heard(opened)] == positions[-1:]


@pytest.mark.parametrize(
    "wrong", ["", "now", "17", "17-", "-1-0", "+", "$", "1-0\n", "9" * 20 + "-0", "\u0661-\u0660"]
)
def test_a_position_that_cannot_be_one_is_refused(scene: Scene, opened: Record, wrong: str) -> None:
    with pytest.raises(InvalidPayloadError, match="does not look like 17-0"):
        scene.runs.heard(opened, wrong)

"""Finds out which workers are there, and which work waits for one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kombu.exceptions import OperationalError

from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import PARTITIONS
from interlock.workers.engine.celery_app import INTAKE_QUEUE, SWEEPS_QUEUE, effect_queues, queue_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.sweeper import late_sweeps
from interlock.workers.engine.thread_pool import HUNG_COMMAND, HUNG_MAX
from interlock.workers.ops.effect_problems import endangered, waits_of
from interlock.workers.systems import health, sweeps
from interlock.workers.text import age

# How long workers have to answer. One whose threads are all busy answers at once.
ANSWER_S = 1.0
LOOKED_AT_MAX = 100  # records that wait for a person, of each partition of the store


class AllAnsweredError(Exception):
    """Every worker that was asked has answered. It ends the wait for more."""


def attendance(
    dispatch: Dispatch,
    depths: Mapping[str, int],
    ask: Callable[[Dispatch], Mapping[str, set[str]]] | None = None,
) -> dict[str, Any]:
    """Return the workers that answer, each with its queues, and each problem with what to do.

    `depths` has how many effects are owed or at work, and how many timers are set. `ask` returns
    the queues of each worker that answers, where a caller has asked them already.
    """
    try:
        served = (ask or served_by)(dispatch)
    except OperationalError as refusal:
        return {"workers": {}, "problems": [f"the broker does not answer: {refusal}"]}
    ours = queue_of(dispatch.settings, "")
    workers = {
        node: sorted(name.removeprefix(ours) for name in names)
        for node, names in sorted(served.items())
    }
    owed = dispatch.owed.oldest()
    found = [
        *problems_of(dispatch, served, depths),
        *_strangers_to_systems(dispatch, served),
        *(waits_of(dispatch, owed) if served else ()),
        *endangered(dispatch, [*owed, *dispatch.owed.at_work()]),
        *unknown_here(dispatch),
        *hung_attempts(dispatch, served),
        *(problem for each in health(dispatch) for problem in each.problems),
        dispatch.quota.problem(),
    ]
    return {"workers": workers, "problems": [problem for problem in found if problem]}


def unknown_here(dispatch: Dispatch) -> Iterator[str]:
    """Yield a sentence about each machine of which records wait, and that is not known here.

    They wait for a worker or a person. Nobody has their code, or this process alone does not.
    """
    _, waiting = dispatch.indexes.waits(range(PARTITIONS), LOOKED_AT_MAX)
    rows = dispatch.listings.rows_of([record_id for record_id, _ in waiting])
    waits = [(one.machine, one.record_id) for one in dispatch.owed.oldest()]
    waits += [(row.machine, row.id) for row in rows.values()]
    found: dict[str, set[str]] = {}
    for machine, record_id in waits:
        if machine not in dispatch.machines:
            found.setdefault(machine, set()).add(record_id)
    for machine, ids in sorted(found.items()):
        those = "1 record waits" if len(ids) == 1 else f"{len(ids)} records wait"
        yield (
            f"{those} of the machine {machine}, such as {min(ids)}, and it is not known here: start"
            " `interlock up` with the file of that workflow, or name its module in"
            " INTERLOCK_SYSTEMS, for workers and for this command"
        )


def served_by(dispatch: Dispatch) -> dict[str, set[str]]:
    """Return the queues that each worker of this deployment serves."""
    inspect = dispatch.publisher.app.control.inspect(timeout=ANSWER_S)
    answers: Mapping[str, list[dict[str, Any]]] = inspect.active_queues() or {}
    return {node: {queue["name"] for queue in queues} for node, queues in answers.items()}


def _strangers_to_systems(dispatch: Dispatch, served: Mapping[str, set[str]]) -> Iterator[str]:
    if own := own_tasks(dispatch.machines):
        yield from lacking_systems(_registered(dispatch, served), own)


def _registered(dispatch: Dispatch, nodes: Iterable[str]) -> dict[str, set[str]]:
    """Return the tasks that each of these workers knows."""
    answers = _answers(dispatch, "registered", nodes)
    return {node: {task.partition(" ")[0] for task in tasks} for node, tasks in answers.items()}


def _answers(dispatch: Dispatch, command: str, nodes: Iterable[str]) -> dict[str, Any]:
    """Return what each of these workers answers to a command of Celery's remote control."""
    waited_for, answers = set(nodes), dict[str, Any]()

    def keep(answer: Mapping[str, Any]) -> None:
        answers.update(answer)
        if answers.keys() >= waited_for:
            raise AllAnsweredError

    # Celery's `limit` counts reads, and one read may bring several answers.
    with suppress(AllAnsweredError):
        dispatch.publisher.app.control.broadcast(
            command, destination=[*waited_for], reply=True, timeout=ANSWER_S, callback=keep
        )
    return answers


def own_tasks(machines: Mapping[str, Machine]) -> dict[str, set[str]]:
    """Return the tasks of the effects of each machine that does not come with Interlock."""
    added = (name for name in machines if not MACHINES.is_ours(name))
    return {
        name: {f"{name}.{effect}" for effect in machines[name].effects}
        for name in added
        if name in machines
    }


def lacking_systems(
    registered: Mapping[str, set[str]], own: Mapping[str, set[str]]
) -> Iterator[str]:
    """Yield a sentence about each worker that does not know a machine of INTERLOCK_SYSTEMS.

    An intake knows no effects, and needs none.
    """
    for node, tasks in sorted(registered.items()):
        lacks = [name for name, wanted in own.items() if wanted - tasks]
        if lacks and any(task.startswith("sweep.") for task in tasks):
            yield (
                f"{node} does not know {', '.join(lacks)}, which INTERLOCK_SYSTEMS adds here: it"
                " does none of that work, and finds none of it that is lost; start it with the"
                " same INTERLOCK_SYSTEMS, where the code is installed"
            )


def problems_of(
    dispatch: Dispatch, served: Mapping[str, set[str]], depths: Mapping[str, int]
) -> list[str]:
    """Return what is wrong with workers and beat; `served` has the queues of each worker.

    `depths` has how many effects are owed or at work, and how many timers are set.
    """
    if not served:
        messages = dispatch.publisher.queue_length(INTAKE_QUEUE)
        waiting = {"effects": depths["effects"], "timers": depths["timers"], "messages": messages}
        named = ", ".join(f"{count} {name}" for name, count in waiting.items() if count)
        sentence = (
            f"work waits ({named}) and no worker answers: start one with `interlock up`, or"
            " `celery -A interlock.workers.main worker`"
        )
        return [sentence] if named else []
    taken = set().union(*served.values())
    missing = {
        name: queue
        for name in sorted(effect_queues(dispatch.machines.values(), INTAKE_QUEUE))
        if (queue := queue_of(dispatch.settings, name)) not in taken
    }
    waiting = dispatch.publisher.queue_lengths(missing)
    found = [
        f"{length} messages wait in {missing[name]} and no worker serves it:"
        f" start one with -Q {missing[name]}"
        for name, length in waiting.items()
        if length
    ]
    queue = queue_of(dispatch.settings, SWEEPS_QUEUE)
    if queue not in taken:
        found.append(
            f"no worker serves {queue}: no timer fires and no lost work is found;"
            f" start one with -Q {queue}"
        )
    served_sweeps = [each for each in sweeps() if queue_of(dispatch.settings, each.queue) in taken]
    if late := late_sweeps(dispatch, served_sweeps):
        found.append(
            f"these sweeps are late: {', '.join(late)}. Start a beat with `celery -A"
            " interlock.workers.main beat`, or another worker if the threads of the first are busy;"
            " if both are there, the log of the worker says why each run of a sweep was given up"
        )
    return found


def hung_attempts(dispatch: Dispatch, served: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield a sentence about each such attempt; `served` has the queues of each worker."""
    intake = queue_of(dispatch.settings, INTAKE_QUEUE)
    asked = [node for node, queues in served.items() if queues != {intake}]
    if not asked:
        return
    for node, found in sorted(_answers(dispatch, HUNG_COMMAND, asked).items()):
        # A worker of another version answers that it does not know the command.
        yield from (hung_text(node, one) for one in found if isinstance(found, list))


def hung_text(node: str, hung: Mapping[str, Any]) -> str:
    """Say what hangs in a worker, and what to do."""
    at = f", at {hung['place']}" if hung["place"] else ""
    return (
        f"{node}: {hung['effect']} of {hung['record']} hangs for {age(hung['since_ms'])},"
        f" though {hung['limit']} is its limit{at}: its record has gone on without it, and another"
        " thread took the place of the one that it keeps. Give what it waits for a time limit of"
        f" its own; start the worker anew to be rid of it. With {HUNG_MAX} such threads it ends by"
        " itself"
    )

"""Compares the tables of a process that starts with those by which the workers work.

A process whose tables have no place for records at work does not start. A worker that starts makes
its tables those of the deployment; the others only compare.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from pydantic import ValidationError

from interlock.kernel.comparison import compare, open_states
from interlock.kernel.errors import StrandedError, TableFunctionError
from interlock.kernel.machine import Machine
from interlock.kernel.moving import data_now
from interlock.kernel.outline import outline_of
from interlock.kernel.record import Record
from interlock.kernel.store.listings import Filter
from interlock.kernel.store.older_records import BATCH
from interlock.kernel.store.state_reads import PAGE
from interlock.kernel.store.tables import Applied
from interlock.kernel.store.views import Views
from interlock.kernel.table_change import Outline, Outlook, TableChange
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.occupied import count_by_state, in_states, states_in_use

log = logging.getLogger(__name__)

ROUNDS_MAX = 10
REPAIR = "repair that function"
CURE = (
    "say by renamed= what the state is called now, keep it for those records by retired=, or start"
    " the code that has it"
)


def check_tables(dispatch: Dispatch, *, applied_by: str = "") -> None:
    """Raise StrandedError if records at work have no place in the tables of this process.

    With the name of a worker, make its tables the applied ones.
    """
    for _ in range(ROUNDS_MAX):
        applied = dispatch.tables.applied()
        changed = {
            name: machine
            for name, machine in dispatch.machines.items()
            if name not in applied or applied[name].digest != machine.digest
        }
        if problems := list(stranded(dispatch, changed, applied)):
            raise StrandedError(problems)
        if not applied_by or all(
            _apply(dispatch, each, applied.get(each.name), applied_by) for each in changed.values()
        ):
            return
        # Another worker was faster: what it has applied is compared next.
    log.warning("other workers apply other tables all the time; start all with the same code")


def stranded(
    dispatch: Dispatch, machines: Mapping[str, Machine], applied: Mapping[str, Applied]
) -> Iterator[str]:
    """Yield a sentence about the records in each state, and of each change, without a place."""
    unknown = {
        name: found
        for name, states in dispatch.tables.states().items()
        if name in machines and (found := states - places_of(machines[name]))
    }
    # The workers of a version before this one have noted no table: the records show their states.
    unnoted = (machine for name, machine in machines.items() if name not in applied)
    for machine in unnoted:
        used = states_in_use(dispatch, machine)
        unknown[machine.name] = unknown.get(machine.name, set()) | (used - places_of(machine))
    if placeless := "; ".join(map(str, in_states(dispatch, unknown))):
        yield f"{placeless}: {CURE}"
    for name in machines.keys() & applied.keys():
        outline = dispatch.tables.outline(name, applied[name].digest)
        gone = unknown.get(name, set())
        for change, number in counted_changes(dispatch, machines[name], outline or {}):
            is_told = change.states is not None and gone.issuperset(change.states)
            if change.verdict is Outlook.STRANDED and number and not is_told:
                those = "1 record" if number == 1 else f"{number} records"
                yield f"{those} of {name} would be stranded, as {change.what}: {change.means}"


def why_older(dispatch: Dispatch, machine: Machine, applied: Applied | None) -> str:
    """Say that a table is older than the one by which processes work, and what to do, or ''."""
    if applied is None or applied.digest == machine.digest:
        return ""
    outline = dispatch.tables.outline(machine.name, applied.digest) or {}
    if outline.get("schema", 0) > machine.schema:
        return (
            f"{machine.name} has data of schema {outline['schema']} since {applied.by} has applied"
            f" that, and this code has schema {machine.schema}: it is older than what runs. To go"
            " back to it, run `interlock apply --back` with the newer code first"
        )
    if dispatch.tables.outline(machine.name, machine.digest) is None:
        return ""  # it was never applied, as older ones were
    running = [
        each.name
        for each in dispatch.tables.processes()
        if each.tables.get(machine.name) == applied.digest
    ]
    if not running:
        return ""
    return (
        f"{machine.name} has another table since {applied.by} has applied that, and"
        f" {', '.join(running)} work by it: this code is older than what runs. To go back to"
        " it, run `interlock apply --back` with the newer code first, or end those. If it is"
        " the newer code, and was taken back, start its workers: they apply it"
    )


def counted_changes(
    dispatch: Dispatch, machine: Machine, outline: Outline
) -> Iterator[tuple[TableChange, int]]:
    """Yield what differs between an applied table and a machine, with how many records it is about.

    Those in states that were renamed before and are still to be moved count with the states. Of a
    change that not all data need fit, those are counted whose data do not fit; it takes reading
    all records that have not ended. So does a newer schema: `migrate` is tried with each of them.
    """
    changes = compare(outline, machine) if outline else ()
    opened = {*open_states(outline), *machine.renamed} if outline else set()
    asked = {*opened, *(state for change in changes for state in change.states or ())}
    numbers = count_by_state(dispatch, machine.name, asked) if changes else Counter[str]()
    fields = {change.field for change in changes if change.field}
    unfit = _unfit(dispatch, machine, opened) if fields else Counter[str]()
    is_newer = bool(changes) and machine.schema > outline["schema"]
    failing = faults_of_migrate(dispatch, machine) if is_newer else {}
    for fault, ids in failing.items():
        what = f"the data of {ids[0]} cannot be made newer: {fault}"
        yield TableChange(Outlook.STRANDED, what, REPAIR, None), len(ids)
    for change in changes:
        chosen = opened if change.states is None else set(change.states)
        number = sum(numbers[state] for state in chosen)
        if change.verdict is Outlook.MOVED and change.states is None:
            number -= sum(map(len, failing.values()))
        if change.field and not unfit[change.field]:
            yield replace(change, verdict=Outlook.GOING_ON, means=change.fitting), number
        else:
            yield change, unfit[change.field] if change.field else number


def faults_of_migrate(
    dispatch: Dispatch, machine: Machine, most: int | None = None
) -> dict[str, list[str]]:
    """Return the ids of the records whose data `migrate` cannot make newer, by what it raises.

    At `most` so many records are tried, else all with older data that have not ended.
    """
    found: dict[str, list[str]] = {}
    ids = islice(dispatch.older_records.all_ids(machine), most)
    views = Views(dispatch.client, dispatch.keys)
    while machine.schema > 1 and (batch := list(islice(ids, BATCH))):
        for record in views.records(batch).values():
            try:
                data_now(machine, record.data, record.schema)
            except TableFunctionError as refusal:
                found.setdefault(str(refusal), []).append(record.id)
    return found


def _unfit(dispatch: Dispatch, machine: Machine, states: Collection[str]) -> Counter[str]:
    """Return by field how many records in some states have data there that the model refuses."""
    found: Counter[str] = Counter()
    wanted = Filter([machine.name], [(machine.name, state) for state in states])
    ids = (row.id for row in dispatch.listings.rows(wanted, size=PAGE))
    views = Views(dispatch.client, dispatch.keys)
    while machine.model and (batch := list(islice(ids, BATCH))):
        for record in views.records(batch).values():
            found.update(_refused(machine, record))
    return found


def _refused(machine: Machine, record: Record) -> set[str]:
    """Return the fields of a record's data that the model of its machine refuses."""
    assert machine.model, "it has been asked for"
    try:
        data = data_now(machine, record.data, record.schema)
        # What a workflow itself remembers begins with _, as no field of a model does.
        machine.model.model_validate({n: v for n, v in data.items() if not n.startswith("_")})
    except ValidationError as refusal:
        return {str(next(iter(each["loc"]), "")) for each in refusal.errors()}
    except TableFunctionError:
        return set()  # it is told with what migrate= raises
    return set()


def places_of(machine: Machine) -> set[str]:
    """Return the states that have a place in a table: its own, and those it has renamed."""
    return {*(str(stage.state) for stage in machine.stages), *map(str, machine.renamed)}


def _apply(dispatch: Dispatch, machine: Machine, applied: Applied | None, by: str) -> bool:
    digest = machine.digest
    dispatch.tables.keep(machine.name, digest, outline_of(machine))
    expected = applied.digest if applied else ""
    done = dispatch.tables.apply(machine.name, digest, expected=expected, by=by)
    if done and applied:
        log.warning("the table of %s is %s now, instead of %s", machine.name, digest, expected)
    return done

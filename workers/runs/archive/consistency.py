"""Whether a workspace's records agree with their logs and with each other; it reads no store.

`kept` is what an export must be: all but the sums that a run noted of those before it, which are in
its log for good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from interlock.kernel.errors import InvalidPayloadError, KernelError
from interlock.kernel.machine import Machine
from interlock.kernel.machines.runs.codon.names import State
from interlock.kernel.machines.runs.codon_types import codon_of
from interlock.kernel.record import Record
from interlock.kernel.restoration import recomputed
from interlock.workers.runs.archive.archive import Archive, Past, place_of
from interlock.workers.runs.archive.findings import Fault, Finding

SUMS = ("cost", "spent")
SHOWN_MAX = 120
MACHINES = ("workspace", "run", "codon")
# Fields that follow from a log, and what they are called to people.
FIELDS = {
    "state": "state",
    "version": "version",
    "entered": "version of its state",
    "since_ms": "time of its state",
    "created_ms": "birth",
    "data": "data",
}
FROM_AN_EXPORT = "the log is the truth: `interlock run import` brings it back from an export"


def kept(archive: Archive, machines: Mapping[str, Machine]) -> list[Finding]:
    """Return what is wrong with records that an export keeps, the worst first."""
    found = [one for past in archive.pasts for one in corrupted(past, machines)]
    found += numbering(archive)
    found += [one for past in archive.at(2) for one in invalid(past.record)]
    return found or list(miscounted(archive, machines))


def corrupted(past: Past, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield what of a record does not follow from its log."""
    record, kind = past.record, Fault.CORRUPTED_DATA
    expected = MACHINES[record.id.count("/")]
    if record.machine != expected:
        problem = f"it is stored as a {record.machine}, its id is a {expected}'s"
        yield Finding(kind, record.id, f"{problem}; {FROM_AN_EXPORT}")
        return
    try:
        folded = recomputed(machines[record.machine], past.kept)
    except KernelError as refusal:
        yield Finding(kind, record.id, f"{refusal}; {FROM_AN_EXPORT}")
        return
    differ = [
        f"{told} {_short(getattr(record, name))}, the log leads to {_short(getattr(folded, name))}"
        for name, told in FIELDS.items()
        if getattr(record, name) != getattr(folded, name)
    ]
    if differ:
        yield Finding(kind, record.id, f"stored is {'; '.join(differ)}; {FROM_AN_EXPORT}")


def invalid(record: Record) -> Iterator[Finding]:
    """Yield why a codon's data is not what its state has."""
    try:
        codon_of(record)
    except (InvalidPayloadError, ValueError) as refusal:
        told = f"{refusal}; a run cannot go on from it: `interlock run rollback` to one before it"
        yield Finding(Fault.INVALID_CODON, record.id, told)


def numbering(archive: Archive) -> Iterator[Finding]:
    """Yield the runs and codons whose numbers are left out, and codons without their run."""
    runs = [one.record.id for one in archive.runs]
    yield from _gaps(archive.workspace, runs, Fault.MISSING_RUN)
    codons = [one.record for one in archive.at(2)]
    for run in dict.fromkeys(str(one.parent) for one in codons):
        of = [one.id for one in codons if one.parent == run]
        if run not in runs:
            told = f"it is not there, but its codons {', '.join(of)} are; {FROM_AN_EXPORT}"
            yield Finding(Fault.MISSING_RUN, run, told)
        yield from _gaps(run, of, Fault.INVALID_CODON)


def live(archive: Archive) -> Iterator[Record]:
    """Yield the runs and codons that have not ended."""
    for past in archive.pasts[1:]:
        record = past.record
        over = record.state != "running" if record.machine == "run" else _is_over(record)
        if not over:
            yield record


def right_sums(archive: Archive, machines: Mapping[str, Machine]) -> dict[str, dict[str, int]]:
    """Return what each record's counters should say: its own sums, and those of its tree."""
    sums: dict[str, dict[str, int]] = {}
    for past in reversed(archive.pasts):
        record, own = past.record, dict.fromkeys(SUMS, 0)
        if summed := machines[record.machine].counters:
            own |= summed(record.data)
        below = sums.setdefault(record.id, {})
        for name in SUMS:
            total = own[name] + below.get(f"tree.{name}", 0)
            below |= {name: own[name], f"tree.{name}": total}
            if parent := record.parent:
                above = sums.setdefault(parent, {})
                above[f"tree.{name}"] = above.get(f"tree.{name}", 0) + total
    return sums


def miscounted(archive: Archive, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield the counters that are not the sum of what they count."""
    sums = right_sums(archive, machines)
    for past in archive.pasts:
        record, right = past.record, sums[past.record.id]
        wrong = {
            name: (record.counters.get(name, 0), n)
            for name, n in right.items()
            if record.counters.get(name, 0) != n
        }
        if wrong:
            told = [f"{name} is {was} and should be {n}" for name, (was, n) in wrong.items()]
            remedy = "`interlock run validate --repair` recounts it"
            message = f"{'; '.join(told)} (micro-dollars); {remedy}"
            yield Finding(Fault.COST_MISMATCH, record.id, message)


def misremembered(archive: Archive, machines: Mapping[str, Machine]) -> Iterator[Finding]:
    """Yield the runs that noted another sum of the runs before them than there is."""
    sums, before = right_sums(archive, machines), dict.fromkeys(SUMS, 0)
    for past in archive.runs:
        told = past.record.data.get("before", {})
        if any(told.get(name, 0) != before[name] for name in SUMS):
            message = (
                f"when it began it noted {_short(told)} for the runs before it, which sum up to "
                f"{before}; that stays in its log: trust `interlock run costs` for all runs, and "
                "add up the runs' own costs instead of asking for those since this run"
            )
            yield Finding(Fault.COST_MISMATCH, past.record.id, message)
        own = sums[past.record.id]
        before = {name: before[name] + own[f"tree.{name}"] for name in SUMS}


def shas(record: Record) -> Iterator[str]:
    """Yield every checkpoint that a run or a codon names."""
    data = record.data
    names = [name for name in data if name.endswith("_checkpoint")]
    yield from (str(data[name]) for name in names if data[name])
    yield from map(str, data.get("checkpoints", {}).values())
    source = data.get("starting", {}).get("source", {})
    if source.get("checkpoint_sha"):
        yield str(source["checkpoint_sha"])


def _gaps(above: str, there: Sequence[str], fault: Fault) -> Iterator[Finding]:
    numbers = {place_of(one)[1][-1] for one in there}
    for number in range(1, max(numbers, default=0)):
        if number not in numbers:
            later = f"{above}/{max(numbers)}"
            message = f"it is not there, but a later one is, {later}; {FROM_AN_EXPORT}"
            yield Finding(fault, f"{above}/{number}", message)


def _is_over(record: Record) -> bool:
    try:
        return State(record.state).is_terminal
    except ValueError:
        return False


def _short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= SHOWN_MAX else f"{told[:SHOWN_MAX]}..."

"""The page of runs in the console: codons, costs, and the checkpoints to go back to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from interlock.kernel.errors import CallError
from interlock.kernel.machines.runs.run.table import SELF as RUN
from interlock.kernel.record import Record, root_of
from interlock.workers.client import Client
from interlock.workers.runs.checkpoint_diff import SOURCE
from interlock.workers.runs.checkpoint_list import RunCheckpoint, list_checkpoints
from interlock.workers.runs.client import Runs
from interlock.workers.runs.history import numbered_below, run_number
from interlock.workers.runs.screen import SHA_LENGTH_SHOWN, run_value
from interlock.workers.runs.start import total_costs
from interlock.workers.supervision.record_diffs import look_at_diff, shown_diff
from interlock.workers.terminal.page import (
    Button,
    Cell,
    CopyableText,
    NamedCells,
    PageAct,
    Part,
    Query,
    RecordLink,
    Section,
    Sentence,
    Since,
    StateName,
    Strip,
    StripStep,
    SystemPage,
    Table,
    Tone,
    ViewLink,
)
from interlock.workers.terminal.screen import age
from interlock.workers.text import dollars

RUNS_MAX = 20
CHECKPOINTS_MAX = 100
GOING_BACK = (
    "Going back restores the folder and starts a new run, which executes and pays the codons after"
    " the checkpoint again. Files that differ are kept on a recovery checkpoint first."
)
TONES: Mapping[str, Tone] = {"failed": "bad", "crashed": "bad", "skipped": "soft"}


def view(client: Client, query: Query) -> list[Section]:
    """Return the newest runs, everything about one `run`, or how two checkpoints `differ`."""
    if differ := query.get("differ"):
        return _differences(client, query.get("run", ""), differ)
    if run := query.get("run"):
        return _run(client, _run_of(client, run))
    views, now_ms = client.dispatch.views, client.dispatch.views.now_ms()
    machines = client.dispatch.machines
    found = views.records(client.page(machine="run", limit=RUNS_MAX).ids, readable_by=machines)
    codons = numbered_below(views, found, readable_by=machines)
    values = [run_value(run, codons[run.id], now_ms) for run in found.values()]
    columns = ("Run", "State", "Plan", "Codons done", "Began", "Cost", "Folder")
    empty = "No run has started yet. `interlock run start` starts one."
    table = Table(columns, [_row(one) for one in values], empty)
    more = [Sentence(f"These are the newest {RUNS_MAX}.", "soft")] * (len(values) == RUNS_MAX)
    return [Section("Runs", (table, *more))]


def panel(client: Client, record: Record) -> list[Section]:
    """Return the codons of a run and its costs."""
    link = Sentence(ViewLink("Its checkpoints, to compare and to go back to", {"run": record.id}))
    value = run_value(record, Runs(client).codons(record.id), client.dispatch.views.now_ms())
    return [Section("Run", (link, *_progress(value), *_costs(record)))]


def roll_back(client: Client, fields: Query) -> ViewLink:
    """Restore the folder of a run to a checkpoint, as `interlock run rollback` does."""
    run = _run_of(client, fields.get("run", ""))
    if not _is_here(client, run):
        raise CallError(_elsewhere(run))
    new = Runs(client).rollback(Path(str(run.data["folder"])), fields.get("to", ""))
    return ViewLink("", {"run": new.id})


def _run_of(client: Client, run: str) -> Record:
    record = client.show(run)
    if record.machine != RUN:
        raise CallError(f"{run} is a {record.machine}, not a run")
    return record


def _is_here(client: Client, run: Record) -> bool:
    return bool(run.data["host"] == client.settings.host)


def _elsewhere(run: Record) -> str:
    folder, host = run.data["folder"], run.data["host"]
    command = "interlock run rollback --to CHECKPOINT"
    return f"its folder {folder} is on {host}; to go back, run `{command}` in it there"


def _row(value: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        ViewLink(value["id"], {"run": value["id"]}),
        StateName(value["state"]),
        value["plan"],
        _done(value),
        Since(value["began_ms"]),
        f"{dollars(value['cost'])} of {dollars(value['spent'])} paid",
        f"{value['folder']} on {value['host']}",
    )


def _done(value: Mapping[str, Any]) -> str:
    return f"{value['done']} of {'?' if value['total'] is None else value['total']}"


def _run(client: Client, run: Record) -> list[Section]:
    value = run_value(run, Runs(client).codons(run.id), client.dispatch.views.now_ms())
    total = total_costs(client.dispatch, root_of(run.id))
    before = NamedCells(
        {"all runs of the folder": f"{dollars(total['cost'])} of {dollars(total['spent'])} paid"}
    )
    return [
        Section("Codons", (*_progress(value), *_costs(run), before)),
        Section("Checkpoints of its folder", list(_checkpoints(client, run))),
    ]


def _progress(value: Mapping[str, Any]) -> Iterator[Part]:
    yield NamedCells(
        {
            "run": RecordLink(value["id"]),
            "state": StateName(value["state"]),
            "plan": f"{value['plan']}: {_done(value)} codons done",
            "folder": CopyableText(value["folder"]),
            "computer": value["host"],
            "took": age(value["now_ms"] - value["began_ms"]),
            "began": value["began_as"],
            "ended": value["why"],
        }
    )
    steps = [_step(codon) for codon in value["codons"]]
    yield Strip(steps) if steps else Sentence("It has executed no codon yet.", "soft")


def _step(codon: Mapping[str, Any]) -> StripStep:
    count = codon["messages"]
    messages = f"{count} message{'s' * (count > 1)}" if count else ""
    cost = f"{age(codon['took_ms'])}, {dollars(codon['cost'])}"
    lines = (cost, messages, codon["sentinels"], codon["why"])
    name = f"{codon['number']}. {codon['codon']}"
    return StripStep(name, codon["state"], lines, codon["id"], TONES.get(codon["state"], ""))


def _costs(run: Record) -> Iterator[Part]:
    """Yield what a run has cost: what counts for its codons, and what was paid beside that."""
    cost, spent, late = (run.counters.get(f"tree.{name}", 0) for name in ("cost", "spent", "late"))
    beside = max(spent - cost, 0)
    yield NamedCells(
        {
            "paid": dollars(spent),
            "counted": f"{dollars(cost)} for its codons",
            "in vain": f"{dollars(beside)} for skipped codons and sentinels" if beside else "",
            "late": f"{dollars(late)} were reported too late to be counted" if late else "",
        }
    )


def _checkpoints(client: Client, run: Record) -> Iterator[Part]:
    """Yield the checkpoints, the newest first, with what may be done with each here."""
    is_here = _is_here(client, run)
    if not is_here:
        yield Sentence(f"From here you cannot go back: {_elsewhere(run)}.", "soft")
    runs_now = bool(client.dispatch.views.holds(root_of(run.id)).get(RUN))
    if is_here and runs_now:
        yield Sentence("A run is running: stop it before you go back to a checkpoint.", "soft")
    elif is_here:
        yield Sentence(GOING_BACK, "soft")
    found = list_checkpoints(client.dispatch, root_of(run.id))
    pairs = list(zip(found, [None, *found], strict=False))[::-1][:CHECKPOINTS_MAX]
    rows = [
        (
            CopyableText(one.sha[:SHA_LENGTH_SHOWN]),
            one.type.replace("_", " "),
            ViewLink(str(run_number(one.run)), {"run": one.run}),
            RecordLink(one.record, one.codon) if one.record else "",
            one.after,
            _compared(run, before.sha, one.sha, "changes since the one before") if before else "",
            _restored(run, one) if is_here and not runs_now else "",
        )
        for one, before in pairs
    ]
    columns = ("Checkpoint", "Type", "Run", "Codon", "Continues after", "Compare", "Restore")
    yield Table(columns, rows, "No checkpoint was taken yet.")


def _compared(run: Record, before: str, after: str, text: str) -> ViewLink:
    return ViewLink(text, {"run": run.id, "differ": f"{before}..{after}"})


def _restored(run: Record, one: RunCheckpoint) -> Button:
    return Button("rollback", "Go back to it", {"run": run.id, "to": one.sha})


def _differences(client: Client, run_id: str, differ: str) -> list[Section]:
    run, dispatch = _run_of(client, run_id), client.dispatch
    before, _, after = differ.partition("..")
    found = shown_diff(dispatch, run.id, look_at_diff(dispatch, run, SOURCE, differ), differ)
    parts = (Sentence(ViewLink("All checkpoints", {"run": run_id})), found)
    title = f"From checkpoint {before[:SHA_LENGTH_SHOWN]} to {after[:SHA_LENGTH_SHOWN]}"
    others = Section("Compare with another", [_others(client, run, before, after)], is_live=False)
    return [Section(title, parts, is_live=False), others]


def _others(client: Client, run: Record, before: str, after: str) -> Table:
    """Return the checkpoints of a run's folder, each to be taken as either end of a comparison."""
    newest = list_checkpoints(client.dispatch, root_of(run.id))[::-1][:CHECKPOINTS_MAX]
    rows = [
        (
            one.sha[:SHA_LENGTH_SHOWN],
            one.type.replace("_", " "),
            one.after,
            _compared(run, one.sha, after, "changes since this one"),
            _compared(run, before, one.sha, "changes up to this one"),
        )
        for one in newest
    ]
    columns = ("Checkpoint", "Type", "Continues after", "As the earlier", "As the later")
    return Table(columns, rows)


PAGE = SystemPage(
    title="Runs",
    question="How far are the runs, and what do they cost?",
    machines=("run", "codon", "workspace"),
    view=view,
    panels={"run": panel},
    acts={"rollback": PageAct("operate", roll_back)},
)

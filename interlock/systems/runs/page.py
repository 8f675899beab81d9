"""Runs as people see them: codons, costs, events, and the checkpoints to go back to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from interlock import CallError, Client
from interlock.system.pages import (
    Button,
    Link,
    LivePart,
    PageAct,
    Part,
    Section,
    Sentence,
    StateName,
    SystemPage,
    Table,
    Time,
    Verbatim,
)
from interlock.system.tables import Record, dollars
from interlock.system.text import LINE_LENGTH_MAX, duration, one_line
from interlock.systems.runs.checkpoint_list import RunCheckpoint, list_checkpoints
from interlock.systems.runs.client import Runs
from interlock.systems.runs.history import numbered_below, run_number
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import SELF as RUN
from interlock.systems.runs.run_values import (
    SHA_LENGTH_SHOWN,
    Row,
    run_value,
    sentinels_text,
    start_text,
)
from interlock.systems.runs.start import total_costs

RUNS_MAX = 20
CHECKPOINTS_MAX = 100
GOING_BACK = (
    "Going back restores the folder and starts a new run, which executes and pays the codons after"
    " the checkpoint again. Files that differ are kept on a recovery checkpoint first."
)
ENDS = {"RunCompleted": "completed", "RunFailed": "failed", "RunCrashed": "crashed"}
EVENT_TEXTS: Mapping[str, Callable[[Row], str]] = {
    "RunStarted": lambda data: start_text(data["starting_conditions"]),
    "CodonStarted": lambda _: "is started",
    "CostsIncremented": lambda data: f"costs {dollars(data['cost_delta'])} more",
    "CostsUpdated": lambda data: f"costs {dollars(data['cost'])} so far",
    "CodonFinalCostSet": lambda data: f"cost {dollars(data['final_cost'])} in the end",
    "AssistantMessageCountUpdated": lambda data: f"{data['new_count']} messages",
    "SentinelStatesUpdated": lambda data: f"sentinels: {sentinels_text(data['sentinel_states'])}",
    "CheckpointCreated": lambda data: (
        f"checkpoint {data['sha'][:SHA_LENGTH_SHOWN]} ({data['checkpoint_type']})"
    ),
    "InitialCheckpointSet": lambda data: f"checkpoint {data['sha'][:SHA_LENGTH_SHOWN]} (initial)",
}


def view(client: Client, query: Mapping[str, str]) -> list[Section]:
    """Return the newest runs, everything about one `run`, or how two checkpoints `differ`."""
    if differ := query.get("differ"):
        return _differences(client, query.get("run", ""), differ)
    if run := query.get("run"):
        return _run(client, _run_of(client, run))
    records, now_ms = client.records, client.now_ms()
    ids = client.page(machine=RUN, limit=RUNS_MAX).ids
    found = records.views.records(ids, readable_by=records.machines)
    codons = numbered_below(records, found, readable=True)
    values = [run_value(run, codons[run.id], now_ms) for run in found.values()]
    columns = ("Run", "State", "Plan", "Codons done", "Began", "Cost", "Folder")
    empty = "No run has started yet. `interlock run start` starts one."
    table = Table(columns, [_row(one) for one in values], empty)
    more = [Sentence(f"These are the newest {RUNS_MAX}.", "soft")] * (len(values) == RUNS_MAX)
    return [Section("Runs", (table, *more))]


def panel(client: Client, record: Record[RunData]) -> list[Section]:
    """Return the codons of a run and its costs."""
    link = Sentence(Link({"run": record.id}, "Its checkpoints, to compare and to go back to"))
    value = run_value(record, Runs(client).codons(record.id), client.now_ms())
    return [Section("Run", (link, *_progress(value), *_costs(record)))]


def run(value: Row, record: Record[RunData]) -> list[Part]:
    """Return the progress of a run, its codons, and its costs."""
    return [*_progress(value), *_costs(record)]


def codons(rows: Sequence[Row]) -> Table:
    """Return executions of a run, the oldest first."""
    columns = ("Codon", "State", "Took", "Messages", "Sentinels", "Why")
    return Table(columns, [_step(row) for row in rows], is_strip=True)


def costs(value: Row) -> Iterator[Table]:
    """Yield what the last run and all runs cost, and the tokens of each codon of the last one."""
    rows = [("the last run", dollars(value["run"]), dollars(value["run_spent"]))]
    if "since" in value:
        since = f"run {value['since_run']} and newer"
        rows.append((since, dollars(value["since"]), dollars(value["since_spent"])))
    rows.append(("all runs", dollars(value["total"]), dollars(value["total_spent"])))
    if value["run_late"]:
        rows.append(("the last run, reported too late", "", dollars(value["run_late"])))
    yield Table(("What", "Codons", "Spent"), rows)
    kinds = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")
    columns = ("Codon", "Cost", "Input", "Output", "Cache written", "Cache read")
    tokens = [
        (row["codon"], dollars(row["cost"]), *(f"{row['tokens'][kind]:,}" for kind in kinds))
        for row in value["codons"]
    ]
    yield Table(columns, tokens)


def checkpoints(rows: Sequence[Row]) -> Table:
    """Return the checkpoints of a folder, the oldest first."""
    found = [
        (
            row["sha"][:SHA_LENGTH_SHOWN],
            row["run"].partition("/")[2],
            row["codon"],
            row["type"],
            row["after"],
        )
        for row in rows
    ]
    columns = ("Checkpoint", "Run", "Codon", "Type", "Continues after")
    return Table(columns, found, "No checkpoint was taken yet.")


def event(value: Row) -> Sentence:
    """Return one event of a run, or of one of its codons."""
    kind, data = value["event"]["type"], value["event"]["data"]
    subject = data.get("codon_id") or f"run {data['run_id'].partition('/')[2]}"
    head = (Sentence(Time(value["at_ms"], "clock"), "soft"), f" {subject:<24} ")
    if kind == "CodonTransitioned":
        why = data["metadata"].get("failure_reason", {}).get("message", "")
        moved = (f"{data['from']} -> ", StateName("codon", data["to"]))
    elif kind in ENDS:
        why, moved = data.get("reason", ""), ("", StateName("run", ENDS[kind]))
    else:
        return Sentence((*head, EVENT_TEXTS[kind](data)))
    because = f": {one_line(why, length_max=LINE_LENGTH_MAX)}" if why else ""
    return Sentence((*head, *moved, because))


def validation(value: Row) -> Iterator[Sentence]:
    """Yield the findings of a validation, and the repairs."""
    for repaired in value["repairs"]:
        yield Sentence((Sentence("repaired ", "good"), repaired))
    errors = [(Sentence(one["type"], "bad"), one) for one in value["errors"]]
    warnings = [(Sentence(one["type"], "ask"), one) for one in value["warnings"]]
    for kind, found in (*errors, *warnings):
        yield Sentence((kind, f" {found['where']}: {found['message']}"))
    if value["valid"]:
        yield Sentence("valid: records, logs, costs and checkpoints agree", "good")


def exported(value: Row) -> list[Sentence]:
    """Return the result of an export."""
    return [*_warnings(value), Sentence(f"{value['records']} records are in {value['file']}")]


def imported(value: Row) -> list[Sentence]:
    """Return the result of an import."""
    existing = f", {value['there']} existed already" if value["there"] else ""
    said = f"{value['written']} records were restored from {value['file']}{existing}"
    return [*_warnings(value), Sentence(said)]


def _warnings(value: Row) -> Iterator[Sentence]:
    for warning in value["warnings"]:
        yield Sentence((Sentence("warning ", "ask"), warning))


def roll_back(client: Client, fields: Mapping[str, str]) -> Link:
    """Restore the folder of a run to a checkpoint, as `interlock run rollback` does."""
    run = _run_of(client, fields.get("run", ""))
    if not _is_here(client, run):
        raise CallError(_elsewhere(run))
    new = Runs(client).rollback(Path(run.data["folder"]), fields.get("to", ""))
    return Link({"run": new.id})


def _run_of(client: Client, run: str) -> Record[RunData]:
    return client.show(run, machine=RUN)


def _is_here(client: Client, run: Record[RunData]) -> bool:
    return run.data["host"] == client.settings.host


def _elsewhere(run: Record[RunData]) -> str:
    folder, host = run.data["folder"], run.data["host"]
    command = "interlock run rollback --to CHECKPOINT"
    return f"its folder {folder} is on {host}; to go back, run `{command}` in it there"


def _row(value: Row) -> tuple[object, ...]:
    return (
        Link({"run": value["id"]}, value["id"]),
        StateName("run", value["state"]),
        value["plan"],
        _done(value),
        Time(value["began_ms"]),
        f"{dollars(value['cost'])} of {dollars(value['spent'])} paid",
        f"{value['folder']} on {value['host']}",
    )


def _done(value: Row) -> str:
    return f"{value['done']} of {'?' if value['total'] is None else value['total']}"


def _run(client: Client, run: Record[RunData]) -> list[Section]:
    value = run_value(run, Runs(client).codons(run.id), client.now_ms())
    total = total_costs(client.records, run.root)
    before = {
        "all runs of the folder": f"{dollars(total['cost'])} of {dollars(total['spent'])} paid"
    }
    return [
        Section("Codons", (*_progress(value), *_costs(run), before)),
        Section("Checkpoints of its folder", list(_checkpoints(client, run))),
    ]


def _progress(value: Row) -> Iterator[Part]:
    rescued = value["rescued"][:SHA_LENGTH_SHOWN]
    yield {
        "run": Link(value["id"]),
        "state": StateName("run", value["state"]),
        "plan": f"{value['plan']}: {_done(value)} codons done",
        "folder": Verbatim(value["folder"]),
        "computer": value["host"],
        "started": Time(value["began_ms"]),
        "took": duration(value["now_ms"] - value["began_ms"]),
        "began": value["began_as"],
        "rescued": f"the files before it: interlock run rollback --to {rescued}" if rescued else "",
        "ended": value["why"],
    }
    executed = codons(value["codons"])
    yield executed if executed.rows else Sentence("It has executed no codon yet.", "soft")


def _step(codon: Row) -> tuple[object, ...]:
    count = codon["messages"]
    messages = f"{count} message{'s' * (count > 1)}" if count else ""
    cost = f"{duration(codon['took_ms'])}, {dollars(codon['cost'])}"
    name = Link(codon["id"], f"{codon['number']}. {codon['codon']}")
    state = StateName("codon", codon["state"])
    return (name, state, cost, messages, codon["sentinels"], codon["why"])


def _costs(run: Record[RunData]) -> Iterator[Part]:
    """Yield what a run has cost: what counts for its codons, and what was paid beside that."""
    cost, spent, late = (run.counters.get(f"tree.{name}", 0) for name in ("cost", "spent", "late"))
    beside = max(spent - cost, 0)
    yield {
        "paid": dollars(spent),
        "counted": f"{dollars(cost)} for its codons",
        "in vain": f"{dollars(beside)} for skipped codons and sentinels" if beside else "",
        "late": f"{dollars(late)} were reported too late to be counted" if late else "",
    }


def _checkpoints(client: Client, run: Record[RunData]) -> Iterator[Part]:
    """Yield the checkpoints, the newest first, with what may be done with each here."""
    is_here = _is_here(client, run)
    if not is_here:
        yield Sentence(f"From here you cannot go back: {_elsewhere(run)}.", "soft")
    runs_now = bool(client.records.views.holds(run.root).get(RUN))
    if is_here and runs_now:
        yield Sentence("A run is running: stop it before you go back to a checkpoint.", "soft")
    elif is_here:
        yield Sentence(GOING_BACK, "soft")
    found = list_checkpoints(client.records, run.root)
    pairs = list(zip(found, [None, *found], strict=False))[::-1][:CHECKPOINTS_MAX]
    rows = [
        (
            Verbatim(one.sha[:SHA_LENGTH_SHOWN]),
            one.type.replace("_", " "),
            Link({"run": one.run}, str(run_number(one.run))),
            Link(one.record, one.codon) if one.record else "",
            one.after,
            _compared(run, before.sha, one.sha, "changes since the one before") if before else "",
            _restored(run, one) if is_here and not runs_now else "",
        )
        for one, before in pairs
    ]
    columns = ("Checkpoint", "Type", "Run", "Codon", "Continues after", "Compare", "Restore")
    yield Table(columns, rows, "No checkpoint was taken yet.")


def _compared(run: Record[RunData], before: str, after: str, text: str) -> Link:
    return Link({"run": run.id, "differ": f"{before}..{after}"}, text)


def _restored(run: Record[RunData], one: RunCheckpoint) -> Button:
    return Button("rollback", "Go back to it", {"run": run.id, "to": one.sha})


def _differences(client: Client, run_id: str, differ: str) -> list[Section]:
    run = _run_of(client, run_id)
    before, _, after = differ.partition("..")
    parts = (Sentence(Link({"run": run_id}, "All checkpoints")), LivePart("diff", run, differ))
    title = f"From checkpoint {before[:SHA_LENGTH_SHOWN]} to {after[:SHA_LENGTH_SHOWN]}"
    others = Section("Compare with another", [_others(client, run, before, after)], is_live=False)
    return [Section(title, parts, is_live=False), others]


def _others(client: Client, run: Record[RunData], before: str, after: str) -> Table:
    """Return the checkpoints of a run's folder, each to be taken as either end of a comparison."""
    newest = list_checkpoints(client.records, run.root)[::-1][:CHECKPOINTS_MAX]
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

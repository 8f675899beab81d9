"""Each event is exported once, in the order of its record, even if records change meanwhile."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from interlock.kernel.errors import CallError, InvalidIdError
from interlock.kernel.event import Event
from interlock.kernel.exported_event import LifecycleEvent, LifecycleEvents
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import partition_of
from interlock.kernel.store import views
from interlock.kernel.store.state_reads import StateKey
from interlock.systems.tasks.client import Tasks
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops import event_export
from interlock.workers.ops.event_export import EventExport, instant_ms, line_of, write_events
from tests.systems.threads.threads import bring, client_of
from tests.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def environment(server: EmbeddedServer, prefix: str) -> dict[str, str]:
    settings = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}
    # Without PYTHONUNBUFFERED its output is buffered, as it is in a shell.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, **{f"INTERLOCK_{name}": value for name, value in settings.items()}}


def submit(interlock: Client, name: str, backlog: str = "b") -> str:
    return Tasks(interlock).submit({"title": name}, backlog=backlog, name=name).id


def failed_and_cancelled(interlock: Client, name: str) -> str:
    """Bring a task to its end: it fails twice and is cancelled."""
    tasks = Tasks(interlock)
    task = tasks.submit({"title": name, "max_retries": 0}, backlog="b", name=name).id
    for _ in range(2):
        claim = tasks.claim(task, owner="ann")
        tasks.report(claim.key, claim.token, "started")
        tasks.report(claim.key, claim.token, "failed", {"reason": "no", "why": "max_turns"})
        interlock.fire(task, "retried")
    interlock.cancel(task, reason="enough")
    return task


def wait_a_millisecond(interlock: Client) -> None:
    now_ms = interlock.dispatch.views.now_ms
    before = now_ms()
    until(lambda: now_ms() > before, what="a millisecond passes")


def versions(events: Sequence[LifecycleEvent]) -> dict[str, list[int]]:
    """Return the versions of tasks. The agents that claim them have records of their own."""
    found = defaultdict(list)
    for event in events:
        if event.entity_type == "task":
            found[event.entity_id].append(event.version)
    return dict(found)


def versions_in_logs(interlock: Client, *ids: str) -> dict[str, list[int]]:
    """Return the versions of every event in these logs."""
    return {
        task: [line.version for line in interlock.history(task) if isinstance(line, Event)]
        for task in ids
    }


def test_a_backlog_is_exported_whole_and_in_order(interlock: Client) -> None:
    ids = [failed_and_cancelled(interlock, "one"), submit(interlock, "two")]
    submit(interlock, "elsewhere", backlog="c")

    events = list(EventExport(interlock.dispatch, ["b"]).all())

    assert versions(events) == versions_in_logs(interlock, *ids)
    of_one = [event for event in events if event.entity_id == "b/one"]
    shown = [
        (event.trigger, event.actor, event.transition_reason, event.reason) for event in of_one[:5]
    ]
    assert shown == [
        ("created", "person:tester", None, "it was handed in"),
        ("claimed", "person:tester", None, "ann claimed it"),
        ("started", "agent", None, "its agent began to work"),
        ("failed", "agent", "max_turns", "this try did not succeed: no"),
        ("retried", "person:tester", "retry", "it is tried again"),
    ]
    assert "c/elsewhere" not in {event.entity_id for event in events}


def test_the_whole_store_a_family_or_one_record(interlock: Client) -> None:
    submit(interlock, "one")
    submit(interlock, "two")
    interlock.fire("b/one", "split", {"subtasks": [{"title": "half"}]})
    bring(interlock, "mail", "awaiting_confirmation")

    def found(*scopes: str) -> set[str]:
        return {event.entity_id for event in EventExport(interlock.dispatch, scopes).all()}

    assert found() == {"b/one", "b/two", "mail"}
    assert found("mail") == {"mail"}
    assert found("b/one", "mail") == {"b/one", "mail"}
    assert found("b/on") == set()
    with pytest.raises(InvalidIdError):
        EventExport(interlock.dispatch, ["b//one"])


def test_paging_skips_no_record_and_repeats_none(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [submit(interlock, f"n{n}") for n in range(23)]
    key = StateKey("task", "open", partition_of("b"))
    interlock.dispatch.client.zadd(
        interlock.dispatch.keys.state_index_of(key.partition, "task", "open"),
        dict.fromkeys(ids[5:17], 1_000.0),
    )
    monkeypatch.setattr(views, "PAGE", 4)

    rows = list(interlock.dispatch.views.list_in_state_since(key))
    exported = Counter(event.entity_id for event in EventExport(interlock.dispatch, ["b"]).all())

    assert sorted(row.id for row in rows) == sorted(ids)
    assert [row.since_ms for row in rows] == sorted(row.since_ms for row in rows)
    assert exported == Counter(ids)
    assert len(list(interlock.dispatch.views.list_in_state_since(key, 1_001))) == len(ids) - 12


def test_a_long_log_is_read_page_by_page(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    task = failed_and_cancelled(interlock, "one")

    lines = interlock.history(task)

    assert len(lines) > 8
    after = [
        line for line in interlock.dispatch.views.log(task, after="3-0") if isinstance(line, Event)
    ]
    assert [line.version for line in after] == versions_in_logs(interlock, task)[task][3:]


def test_each_event_is_exported_once_however_often_the_store_is_read(interlock: Client) -> None:
    export = EventExport(interlock.dispatch, ["b"])
    submit(interlock, "one")

    assert [event.trigger for event in export.new()] == ["created"]
    assert list(export.new()) == []
    done = failed_and_cancelled(interlock, "two")
    interlock.cancel("b/one")
    assert versions(list(export.new())) == {
        "b/one": [2],
        done: versions_in_logs(interlock, done)[done],
    }
    assert list(export.new()) == []


def test_a_record_that_changes_during_a_pass_is_exported_once(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", 0)
    ids = [submit(interlock, f"n{n}") for n in range(6)]
    wait_a_millisecond(interlock)
    exported: list[LifecycleEvent] = []

    for event in EventExport(interlock.dispatch, ["b"]).all():
        if not exported:
            for task in ids:
                interlock.cancel(task, reason="meanwhile")
        exported.append(event)

    assert versions(exported) == versions_in_logs(interlock, *ids)


def test_a_record_that_moves_to_a_state_already_read_is_found_by_the_next_pass(
    interlock: Client,
) -> None:
    tasks = Tasks(interlock)
    failed = tasks.submit({"title": "x", "max_retries": 0}, backlog="b", name="failed").id
    claim = tasks.claim(failed, owner="ann")
    tasks.report(claim.key, claim.token, "failed", {"reason": "no"})
    waiting = submit(interlock, "waiting")
    exported: list[LifecycleEvent] = []

    # Tasks in `open` are read first, those in `failed` much later.
    for event in EventExport(interlock.dispatch, ["b"]).all():
        if not exported:
            interlock.fire(failed, "retried")
        exported.append(event)

    assert list(versions(exported)) == [waiting, failed]
    assert versions(exported) == versions_in_logs(interlock, failed, waiting)


def test_an_event_within_a_state_is_found(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", 0)
    export = EventExport(interlock.dispatch)
    bring(interlock, "run", "executing")
    wait_a_millisecond(interlock)
    before = list(export.new())

    interlock.cancel("run", reason="stop it")

    after = list(export.new())
    assert [event.trigger for event in after] == ["cancel_requested"]
    assert after[0].version == before[-1].version + 1
    assert (after[0].from_status, after[0].to_status) == ("executing", "executing")


def test_a_record_that_ended_long_ago_is_not_remembered(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", -1_000)
    failed_and_cancelled(interlock, "one")
    submit(interlock, "two")
    export = EventExport(interlock.dispatch, ["b"])

    list(export.new())

    assert {record_id for record_id in export._exported if "~" not in record_id} == {"b/two"}


def test_only_events_from_a_time_on_are_exported(interlock: Client) -> None:
    submit(interlock, "one")
    submit(interlock, "two")
    wait_a_millisecond(interlock)
    since_ms = interlock.dispatch.views.now_ms()
    interlock.cancel("b/two")

    exported = list(EventExport(interlock.dispatch, ["b"], since_ms=since_ms).all())

    assert [(event.entity_id, event.trigger) for event in exported] == [("b/two", "cancelled")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1767225600", 1_767_225_600_000),
        ("1767225600.25", 1_767_225_600_250),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
    ],
)
def test_a_time_is_unix_seconds_or_iso_8601(text: str, expected: int) -> None:
    assert instant_ms(text) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "nan", "inf", "2026-13-01", "12:00"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CallError, match="time"):
        instant_ms(text)


def test_following_goes_on_until_goes_on_returns_false(interlock: Client) -> None:
    submit(interlock, "one")
    out, rests = io.BytesIO(), []

    def goes_on(rest_s: float) -> bool:
        rests.append(rest_s)
        submit(interlock, f"more{len(rests)}")
        return len(rests) < 4

    write_events(EventExport(interlock.dispatch, ["b"]), out, follow=True, goes_on=goes_on)

    names = [json.loads(line)["entity_id"] for line in out.getvalue().splitlines()]
    assert names == ["b/one", "b/more1", "b/more2", "b/more3"]
    assert min(rests) >= event_export.POLL_S


def test_a_line_is_json_whatever_the_reason_contains(interlock: Client) -> None:
    submit(interlock, "one")
    interlock.cancel("b/one", reason='two\nlines,   "quotes", žluťoučký')

    *_, last = EventExport(interlock.dispatch, ["b"]).all()

    line = line_of(last)
    assert line.count(b"\n") == 1
    value = json.loads(line)
    assert value["reason"] == 'it is no longer wanted: two\nlines,   "quotes", žluťoučký'
    assert (value["transition_reason"], value["abort_reason"]) == ("aborted", None)
    assert list(value)[:4] == ["timestamp", "entity_type", "entity_id", "from_status"]


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "interlock", *arguments]


@contextmanager
def started(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command_line("events", *arguments),
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(environment: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(app, ["events", *arguments], env=environment)


def test_the_command_writes_lines_or_a_file(
    interlock: Client, environment: dict[str, str], tmp_path: Path
) -> None:
    submit(interlock, "one")
    submit(interlock, "two")

    piped = run(environment, "b")
    written = run(environment, "--out", str(tmp_path / "events.jsonl"), "--json")
    unknown = run(environment, "nobody", "--json")

    lines = [json.loads(line) for line in piped.stdout.splitlines()]
    assert (piped.exit_code, piped.stderr) == (0, "")
    assert {line["entity_id"] for line in lines} == {"b/one", "b/two"}
    assert json.loads(written.stdout) == {"file": str(tmp_path / "events.jsonl"), "events": 2}
    assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == len(lines)
    assert (unknown.exit_code, json.loads(unknown.stdout)["error"]) == (1, "UnknownRecordError")


def test_a_file_that_cannot_be_written_is_reported_in_a_sentence(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = run(environment, "--out", str(tmp_path))

    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


def test_the_command_ends_quietly_when_its_reader_is_gone(
    interlock: Client, environment: dict[str, str]
) -> None:
    """The reader ends amid an output that no pipe can buffer."""
    for n in range(300):
        submit(interlock, f"n{n}")

    with started(environment, "b") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"{")
        process.stdout.close()

        assert (process.wait(180), process.stderr.read()) == (0, b"")


def test_following_writes_new_events_and_ends_with_its_reader_without_another_event(
    interlock: Client, environment: dict[str, str]
) -> None:
    submit(interlock, "one")

    with started(environment, "b", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["entity_id"] == "b/one"
        submit(interlock, "two")
        assert json.loads(process.stdout.readline())["entity_id"] == "b/two"
        process.stdout.close()

        assert (process.wait(180), process.stderr.read()) == (0, b"")


def test_ctrl_c_ends_following_with_0(interlock: Client, environment: dict[str, str]) -> None:
    submit(interlock, "one")

    with started(environment, "b", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)

        assert (process.wait(180), process.stderr.read()) == (0, b"")


READERS = {"console", "diff", "supervisor"}  # parts that read records, and change none


def actors_in(tree: ast.AST) -> Iterator[str]:
    """Yield every actor that a module names in its code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            named = {"Cause": node.args[:1], "named": node.args[:1], "component": node.args[1:2]}
            values: list[Any] = named.get(function, [])
            values += [keyword.value for keyword in node.keywords if keyword.arg == "actor"]
            yield from (str(value.value) for value in values if isinstance(value, ast.Constant))
        if isinstance(node, ast.Assign):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"ACTOR", "COMPONENT", "PARTY"} and isinstance(node.value, ast.Constant):
                yield str(node.value.value)
        if isinstance(node, ast.FunctionDef):
            positional = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            by_keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, value in (*positional, *by_keyword):
                if argument.arg == "actor" and isinstance(value, ast.Constant) and value.value:
                    yield str(value.value)


def test_every_actor_in_the_code_is_in_the_closed_list() -> None:
    paths = [*(ROOT / "interlock").rglob("*.py"), *(ROOT / "examples" / "demo").glob("*.py")]
    texts = (path.read_text("utf-8") for path in paths)
    # Without one of these words a module names none, and takes long to parse.
    named = re.compile(r"Cause|actor|ACTOR|COMPONENT|PARTY|named\(|component\(")
    found = {name for text in texts if named.search(text) for name in actors_in(ast.parse(text))}

    assert {"producer", "person", "cli", "intake", "demo", "spawn", "stalls", "agent"} <= found
    assert found - READERS <= LifecycleEvents(MACHINES).actors

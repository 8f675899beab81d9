"""Events are exported once each, in order per record, whatever moves meanwhile."""

from __future__ import annotations

import ast
import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.kernel.errors import CallError, InvalidIdError
from interlock.kernel.event import Event
from interlock.kernel.published_event import Actor, LifecycleEvent
from interlock.kernel.record import partition_of
from interlock.kernel.store import views
from interlock.kernel.store.views import StateKey
from interlock.workers.client import Client
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops import event_export
from interlock.workers.ops.event_export import Export, instant_ms, line_of, write_events
from interlock.workers.tasks.client import Tasks
from tests.waiting import until
from tests.workers.threads.threads import bring, client_of

ROOT = Path(__file__).parents[3]


@pytest.fixture
def here(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def environment(server: EmbeddedServer, prefix: str) -> dict[str, str]:
    own = {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}
    # Its output is buffered, as it is where nobody asks for the contrary.
    inherited = {name: one for name, one in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, **{f"INTERLOCK_{name}": value for name, value in own.items()}}


def submit(here: Client, name: str, backlog: str = "b") -> str:
    return Tasks(here).submit({"title": name}, backlog=backlog, name=name).id


def given_up(here: Client, name: str) -> str:
    """Bring a task to its end: it fails twice and is cancelled."""
    tasks = Tasks(here)
    of = tasks.submit({"title": name, "max_retries": 0}, backlog="b", name=name).id
    for _ in range(2):
        claim = tasks.claim(of, owner="ann")
        tasks.report(claim.key, claim.token, "started")
        tasks.report(claim.key, claim.token, "failed", {"reason": "no", "why": "max_turns"})
        here.fire(of, "retried")
    here.cancel(of, reason="enough")
    return of


def a_ms_passes(here: Client) -> None:
    now_ms = here.dispatch.views.now_ms
    before = now_ms()
    until(lambda: now_ms() > before, what="a millisecond passes")


def versions(events: Sequence[LifecycleEvent]) -> dict[str, list[int]]:
    """Return the versions of tasks; who claims them has records of his own."""
    found = defaultdict(list)
    for event in events:
        if event.entity_type == "task":
            found[event.entity_id].append(event.version)
    return dict(found)


def logged(here: Client, *ids: str) -> dict[str, list[int]]:
    """Return the versions of every event in these logs."""
    return {
        one: [line.version for line in here.history(one) if isinstance(line, Event)] for one in ids
    }


def test_a_backlog_is_exported_whole_and_in_order(here: Client) -> None:
    ids = [given_up(here, "one"), submit(here, "two")]
    submit(here, "elsewhere", backlog="c")

    events = list(Export(here.dispatch, ["b"]).all())

    assert versions(events) == logged(here, *ids)
    of_one = [one for one in events if one.entity_id == "b/one"]
    assert [(one.trigger, one.actor, one.transition_reason) for one in of_one[:5]] == [
        ("created", "person:tester", None),
        ("claimed", "person:tester", None),
        ("started", "agent", None),
        ("failed", "agent", "max_turns"),
        ("retried", "person:tester", "retry"),
    ]
    assert "c/elsewhere" not in {one.entity_id for one in events}


def test_the_whole_store_a_family_or_one_record(here: Client) -> None:
    submit(here, "one")
    submit(here, "two")
    here.fire("b/one", "split", {"subtasks": [{"title": "half"}]})
    bring(here, "mail", "awaiting_confirmation")

    def found(*scopes: str) -> set[str]:
        return {one.entity_id for one in Export(here.dispatch, scopes).all()}

    assert found() == {"b/one", "b/two", "mail"}
    assert found("mail") == {"mail"}
    assert found("b/one", "mail") == {"b/one", "mail"}
    assert found("b/on") == set()
    with pytest.raises(InvalidIdError):
        Export(here.dispatch, ["b//one"])


def test_pages_leave_nobody_out_and_tell_nobody_twice(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [submit(here, f"n{n}") for n in range(23)]
    place = StateKey("task", "open", partition_of("b"))
    here.dispatch.client.zadd(
        here.dispatch.keys.state_index_of(place.partition, "task", "open"),
        dict.fromkeys(ids[5:17], 1_000.0),
    )
    monkeypatch.setattr(views, "PAGE", 4)

    rows = list(here.dispatch.views.list_in_state_since(place))
    told = Counter(one.entity_id for one in Export(here.dispatch, ["b"]).all())

    assert sorted(row.id for row in rows) == sorted(ids)
    assert [row.since_ms for row in rows] == sorted(row.since_ms for row in rows)
    assert told == Counter(ids)
    assert len(list(here.dispatch.views.list_in_state_since(place, 1_001))) == len(ids) - 12


def test_a_long_log_is_read_page_by_page(here: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PAGE", 2)
    of = given_up(here, "one")

    lines = here.history(of)

    assert len(lines) > 8
    after = [line for line in here.dispatch.views.log(of, after=3) if isinstance(line, Event)]
    assert [line.version for line in after] == logged(here, of)[of][3:]


def test_each_event_is_told_once_however_often_it_is_looked_for(here: Client) -> None:
    export = Export(here.dispatch, ["b"])
    submit(here, "one")

    assert [one.trigger for one in export.new()] == ["created"]
    assert list(export.new()) == []
    done = given_up(here, "two")
    here.cancel("b/one")
    assert versions(list(export.new())) == {"b/one": [2], done: logged(here, done)[done]}
    assert list(export.new()) == []


def test_who_moves_on_while_he_is_looked_for_is_told_once(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", 0)
    ids = [submit(here, f"n{n}") for n in range(6)]
    a_ms_passes(here)
    told: list[LifecycleEvent] = []

    for event in Export(here.dispatch, ["b"]).all():
        if not told:
            for one in ids:
                here.cancel(one, reason="meanwhile")
        told.append(event)

    assert versions(told) == logged(here, *ids)


def test_who_moves_to_where_was_looked_already_is_found_by_looking_again(here: Client) -> None:
    tasks = Tasks(here)
    failed = tasks.submit({"title": "x", "max_retries": 0}, backlog="b", name="failed").id
    claim = tasks.claim(failed, owner="ann")
    tasks.report(claim.key, claim.token, "failed", {"reason": "no"})
    waiting = submit(here, "waiting")
    told: list[LifecycleEvent] = []

    # Open is looked at first, failed long after it.
    for event in Export(here.dispatch, ["b"]).all():
        if not told:
            here.fire(failed, "retried")
        told.append(event)

    assert list(versions(told)) == [waiting, failed]
    assert versions(told) == logged(here, failed, waiting)


def test_an_event_that_moves_no_record_is_found(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", 0)
    export = Export(here.dispatch)
    bring(here, "run", "executing")
    a_ms_passes(here)
    before = list(export.new())

    here.cancel("run", reason="stop it")

    after = list(export.new())
    assert [one.trigger for one in after] == ["cancel_requested"]
    assert after[0].version == before[-1].version + 1
    assert (after[0].from_status, after[0].to_status) == ("executing", "executing")


def test_what_ended_long_ago_is_not_remembered(
    here: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_export, "OVERLAP_MS", -1_000)
    given_up(here, "one")
    submit(here, "two")
    export = Export(here.dispatch, ["b"])

    list(export.new())

    assert {one for one in export._known if "~" not in one} == {"b/two"}


def test_only_what_happened_from_a_time_on(here: Client) -> None:
    submit(here, "one")
    submit(here, "two")
    a_ms_passes(here)
    since_ms = here.dispatch.views.now_ms()
    here.cancel("b/two")

    told = list(Export(here.dispatch, ["b"], since_ms=since_ms).all())

    assert [(one.entity_id, one.trigger) for one in told] == [("b/two", "cancelled")]


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
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CallError, match="time"):
        instant_ms(text)


def test_following_goes_on_until_it_is_told_to_stop(here: Client) -> None:
    submit(here, "one")
    out, rests = io.BytesIO(), []

    def goes_on(rest_s: float) -> bool:
        rests.append(rest_s)
        submit(here, f"more{len(rests)}")
        return len(rests) < 4

    write_events(Export(here.dispatch, ["b"]), out, follow=True, goes_on=goes_on)

    names = [json.loads(line)["entity_id"] for line in out.getvalue().splitlines()]
    assert names == ["b/one", "b/more1", "b/more2", "b/more3"]
    assert min(rests) >= event_export.POLL_S


def test_a_line_is_json_whatever_is_said_in_it(here: Client) -> None:
    submit(here, "one")
    here.cancel("b/one", reason='two\nlines,   "quotes", žluťoučký')

    *_, last = Export(here.dispatch, ["b"]).all()

    line = line_of(last)
    assert line.count(b"\n") == 1
    told = json.loads(line)
    assert told["reason"] == 'two\nlines,   "quotes", žluťoučký'
    assert (told["transition_reason"], told["abort_reason"]) == ("aborted", None)
    assert list(told)[:4] == ["timestamp", "entity_type", "entity_id", "from_status"]


# --- the command, as a process ------------------------------------------------------------------


def interlock(*words: str) -> list[str]:
    return [sys.executable, "-c", "from interlock.workers.cli import main; main()", *words]


@contextmanager
def started(environment: dict[str, str], *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        interlock("events", *words),
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        interlock("events", *words), env=environment, cwd=ROOT, capture_output=True, check=False
    )


def test_the_command_writes_lines_or_a_file(
    here: Client, environment: dict[str, str], tmp_path: Path
) -> None:
    submit(here, "one")
    submit(here, "two")

    piped = run(environment, "b")
    filed = run(environment, "--out", str(tmp_path / "events.jsonl"), "--json")
    unknown = run(environment, "nobody", "--json")

    lines = [json.loads(line) for line in piped.stdout.splitlines()]
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert {line["entity_id"] for line in lines} == {"b/one", "b/two"}
    assert json.loads(filed.stdout) == {"file": str(tmp_path / "events.jsonl"), "events": 2}
    assert len((tmp_path / "events.jsonl").read_bytes().splitlines()) == len(lines)
    assert (unknown.returncode, json.loads(unknown.stdout)["error"]) == (1, "UnknownRecordError")


def test_a_file_that_cannot_be_written_is_told_in_a_sentence(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = run(environment, "--out", str(tmp_path))

    assert done.returncode == 1
    assert b"cannot be written" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("count", [1, 300])
def test_a_reader_that_goes_away_ends_it_quietly(
    here: Client, environment: dict[str, str], count: int
) -> None:
    """Before the first line is written, or in the middle of more than a pipe holds."""
    for n in range(count):
        submit(here, f"n{n}")

    with started(environment, "b") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if count > 1:
            assert process.stdout.readline().startswith(b"{")
        process.stdout.close()

        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_a_follower_hears_what_is_new_and_ends_with_its_reader_though_nothing_happens(
    here: Client, environment: dict[str, str]
) -> None:
    submit(here, "one")

    with started(environment, "b", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["entity_id"] == "b/one"
        submit(here, "two")
        assert json.loads(process.stdout.readline())["entity_id"] == "b/two"
        process.stdout.close()

        assert (process.wait(30), process.stderr.read()) == (0, b"")


def test_ctrl_c_ends_a_follower_well(here: Client, environment: dict[str, str]) -> None:
    submit(here, "one")

    with started(environment, "b", "--follow") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)

        assert (process.wait(30), process.stderr.read()) == (0, b"")


# --- the closed list ----------------------------------------------------------------------------


def named_in(tree: ast.AST) -> Iterator[str]:
    """Yield every actor that a module of ours writes out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_cause = isinstance(node.func, ast.Name) and node.func.id == "Cause"
            given: list[Any] = node.args[:1] if is_cause else []
            given += [word.value for word in node.keywords if word.arg == "actor"]
            yield from (str(one.value) for one in given if isinstance(one, ast.Constant))
        if isinstance(node, ast.Assign):
            names = {one.id for one in node.targets if isinstance(one, ast.Name)}
            if names & {"ACTOR", "COMPONENT", "PARTY"} and isinstance(node.value, ast.Constant):
                yield str(node.value.value)
        if isinstance(node, ast.FunctionDef):
            plain = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for one, value in (*plain, *named):
                if one.arg == "actor" and isinstance(value, ast.Constant):
                    yield str(value.value)


def test_every_actor_that_our_parts_write_out_is_in_the_closed_list() -> None:
    found = {
        name
        for folder in ("kernel", "workers")
        for path in (ROOT / folder).rglob("*.py")
        for name in named_in(ast.parse(path.read_text("utf-8")))
    }

    assert {"producer", "person", "cli", "intake", "demo", "spawn", "stalls", "agent"} <= found
    assert found <= set(Actor)

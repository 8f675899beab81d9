"""The difference of a record is compared by a worker of its computer, and read from any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from interlock.git.diff import Diff, FileDiff
from interlock.git.errors import GitError
from interlock.kernel.errors import CallError
from interlock.kernel.record import Record
from interlock.systems.tasks.task_diff import SOURCE
from interlock.workers.api import diffs, outputs
from interlock.workers.api.app import create_app
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.engine import diff_calls, diff_publications
from interlock.workers.engine.diff_calls import look_at_diff
from interlock.workers.engine.dispatch import COMPARISONS_MAX
from interlock.workers.engine.polling import Intervals
from interlock.workers.engine.record_diff import DiffSource, DiffState, NoDiffError
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.remote.client import HttpClient
from interlock.workers.supervision import page
from interlock.workers.terminal.page import LivePart
from tests.systems.tasks.claims import claimed
from tests.systems.threads.threads import bring, client_of
from tests.workers.supervision.published import Published

URL = "http://127.0.0.1"
SECRET = "sesame-open!\nsecond line"


@dataclass
class Compared:
    """What the computer of the tasks compares, and for which of them it was asked, with limits."""

    files: tuple[FileDiff, ...] = (FileDiff("a.py", "changed", "-old\n+new\n"),)
    problem: str = ""
    host: str = "anvil"
    reads: list[tuple[str, str, int, float]] = field(default_factory=list)

    def source_of(self, _: Record) -> DiffSource:
        return DiffSource(("task",), lambda *_: self.host, self.read)

    def read(self, record: Record, between: str, bytes_max: int, within_s: float) -> Diff:
        self.reads.append((record.id, between, bytes_max, within_s))
        if self.problem:
            raise GitError(self.problem)
        return Diff(self.files, unnamed=1)


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    return client_of(server.url, prefix, auth="none", home=tmp_path / "of-the-client")


@pytest.fixture
def compared() -> Compared:
    return Compared()


@pytest.fixture
def published(
    interlock: Client, compared: Compared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Published:
    monkeypatch.setenv("A_TOKEN", SECRET)
    found = Published(interlock, tmp_path / "of-the-worker", "anvil", compared.source_of)
    monkeypatch.setattr(Intervals, "sleep", lambda _: found.publisher.publish())
    return found


@pytest.fixture
def task(interlock: Client) -> Record:
    claimed(interlock, "b/one").alive(host="anvil")
    return interlock.show("b/one")


@pytest.fixture
def served(interlock: Client) -> Iterator[TestClient]:
    with TestClient(create_app(interlock), base_url=URL) as http:
        yield http


@pytest.fixture(params=["store", "http"])
def reader(
    request: pytest.FixtureRequest, interlock: Client, served: TestClient
) -> Client | HttpClient:
    """Return a client: both read the same."""
    return interlock if request.param == "store" else HttpClient(URL, http=served)


def test_a_difference_is_read_from_another_computer(
    reader: Client | HttpClient,
    interlock: Client,
    published: Published,
    compared: Compared,
    task: Record,
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")

    found = reader.diff("b/one")
    compared.problem = "no agent has a branch"
    claimed(interlock, "b/two").alive(host="anvil")

    assert (found.state, found.host, found.unnamed) == (DiffState.KNOWN, "anvil", 1)
    assert (found.detail, found.files) == ("", compared.files)
    assert found.compared_ms
    assert found.compared_ms <= found.now_ms
    with pytest.raises(NoDiffError, match="The worker on anvil answers: no agent has a branch"):
        reader.diff("b/two")
    assert [one[0] for one in compared.reads] == ["b/one", "b/two"]
    with pytest.raises(CallError, match="paper is a thread"):
        reader.diff("paper")
    del published, task


def test_one_comparison_serves_all_who_look_and_none_is_made_for_nobody(
    interlock: Client, published: Published, compared: Compared, task: Record, tmp_path: Path
) -> None:
    claimed(interlock, "b/two").alive(host="anvil")
    tasks = [task, interlock.show("b/two")]
    other = Published(interlock, tmp_path, "anvil", compared.source_of)
    elsewhere = Published(interlock, tmp_path, "forge", compared.source_of)

    asked = [look_at_diff(interlock.dispatch, each, SOURCE) for each in tasks * 20]
    numbers = []
    for _ in range(3):
        for each in (published, other, elsewhere):
            each.publisher.publish()
            numbers.append(len(compared.reads))
    known = [look_at_diff(interlock.dispatch, each, SOURCE) for each in tasks * 20]

    assert {one.state for one in asked} == {DiffState.ASKED}
    assert "has been asked for it just now; this takes a moment" in asked[0].detail
    assert {one.state for one in known} == {DiffState.KNOWN}
    assert numbers == [1, 2, 2, 2, 2, 2, 2, 2, 2], "one at each poll, once for all"
    limits = diff_publications.LIMITS
    assert compared.reads == [("b/one", "", *limits), ("b/two", "", *limits)]


def test_few_differences_are_made_at_once(
    interlock: Client, compared: Compared, task: Record
) -> None:
    dispatch, source = interlock.dispatch, compared.source_of(task)
    compared.host = interlock.settings.host
    for _ in range(COMPARISONS_MAX):
        dispatch.comparisons.acquire()
    busy = look_at_diff(interlock.dispatch, task, source)
    reads = len(compared.reads)
    dispatch.comparisons.release()
    compared.problem = "it is gone"
    later = [look_at_diff(interlock.dispatch, task, source) for _ in range(2)]

    assert (busy.state, reads) == (DiffState.ASKED, 0)
    assert "compares the files of 4 others now. Ask again" in busy.detail
    assert not page.shown_diff(LivePart("diff", task), busy, is_here=True).is_followed
    assert [one.detail for one in later] == ["it is gone."] * 2


def test_a_listener_ends_with_the_answer(
    interlock: Client, published: Published, compared: Compared, task: Record
) -> None:
    def read(place: Any) -> tuple[list[str], Any] | None:
        found = diffs.read_diffs(interlock, [place])[place]
        return ([one.state for one in found.messages], found.place) if found else None

    first = read((task.id, "", ""))
    assert first
    waiting = read(first[1])
    published.publisher.publish()
    second = read(first[1])

    assert (first[0], waiting) == (["asked"], ([], first[1]))
    assert second
    assert second[0] == ["known"]
    assert read(second[1]) is None, "a page that is left open has nothing compared again"
    compared.host = interlock.settings.host
    claimed(interlock, "b/here").alive(host=interlock.settings.host)
    assert diffs.read_diffs(interlock, [("b/here", "", "")]) == {("b/here", "", ""): None}


def test_a_damaged_record_stops_neither_its_followers_nor_the_publishing_of_others(
    interlock: Client, published: Published, task: Record
) -> None:
    claimed(interlock, "b/damaged").alive(host="anvil")
    agent = claimed(interlock, "b/of-damaged-agent").alive(host="anvil").names.agent
    dispatch = interlock.dispatch
    for record_id in ("b/damaged", agent):
        dispatch.client.hset(dispatch.keys.record(record_id), "data", "{")
    ids = ("b/damaged", task.id, "b/of-damaged-agent")
    diff_calls.ask_for_diff(dispatch, "anvil", "b/damaged", "")

    followed = diffs.read_diffs(interlock, [(one, "", "") for one in ids])
    printed = outputs.read_outputs(interlock, [(one, "") for one in ids])
    for _ in range(2):
        published.publisher.publish()

    assert (followed["b/damaged", "", ""], printed["b/damaged", ""]) == (None, None)
    assert followed[task.id, "", ""]
    assert printed[task.id, ""]
    assert look_at_diff(interlock.dispatch, task, SOURCE).state is DiffState.KNOWN


def test_an_answer_is_bounded_and_has_no_secret(
    interlock: Client,
    published: Published,
    compared: Compared,
    task: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diff_publications, "FIELDS_BYTES_MAX", 400)
    text = "".join(f"+{line}\n" for line in SECRET.splitlines())
    compared.files = (
        FileDiff("sesame-open!", "added", text),
        *(FileDiff(f"{number}.py", "changed", "+" * 100) for number in range(9)),
    )

    found = interlock.diff(task.id)
    compared.problem = f"git says {SECRET}"
    claimed(interlock, "b/two").alive(host="anvil")
    with pytest.raises(NoDiffError) as refused:
        interlock.diff("b/two")

    assert found.files[0] == FileDiff("*" * 12, "added", f"+{'*' * 12}\n+{'*' * 11}\n")
    assert (len(found.files), found.unnamed) == (2, 9), "what has no room is counted"
    assert "*" * 12 in str(refused.value)
    assert "sesame" not in str(refused.value)
    del published


def test_what_is_compared_here_has_no_secret(
    interlock: Client, compared: Compared, task: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    compared.host = interlock.settings.host
    compared.files = (FileDiff("sesame-open!", "added", "+second line\n"),)
    source = compared.source_of(task)

    found = look_at_diff(interlock.dispatch, task, source)
    compared.problem = f"git says {SECRET}"
    refused = look_at_diff(interlock.dispatch, task, source)

    assert found.files == (FileDiff("*" * 12, "added", f"+{'*' * 11}\n"),)
    assert refused.detail == f"git says {'*' * 24}."


def test_a_computer_compares_only_what_records_say_that_it_has(
    interlock: Client, published: Published, compared: Compared, task: Record
) -> None:
    compared.host = "forge"
    looks = []
    for name in (task.id, "no/such", "../etc ../passwd"):
        diff_calls.ask_for_diff(interlock.dispatch, "anvil", name, "")
        published.publisher.publish()
        looks.append(diff_calls.ask_for_diff(interlock.dispatch, "anvil", name, ""))

    assert compared.reads == []
    assert {one.detail for one in looks} == {
        "The worker on anvil answers: it has no difference of this record."
    }
    with pytest.raises(NoDiffError, match="more than 200 characters"):
        look_at_diff(interlock.dispatch, task, SOURCE, "x" * 201)


def test_why_there_is_no_difference_is_one_sentence_with_one_full_stop(
    interlock: Client, published: Published, compared: Compared, task: Record
) -> None:
    compared.problem = "The agent has changed nothing yet."
    look_at_diff(interlock.dispatch, task, SOURCE)
    published.publisher.publish()
    there = look_at_diff(interlock.dispatch, task, SOURCE)
    compared.host = interlock.settings.host
    here = look_at_diff(interlock.dispatch, task, compared.source_of(task))

    assert there.detail == "The worker on anvil answers: The agent has changed nothing yet."
    assert here.detail == "The agent has changed nothing yet."


def test_an_older_answer_is_shown_with_its_time_until_the_computer_answers_again(
    interlock: Client,
    published: Published,
    compared: Compared,
    task: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interlock.diff(task.id)
    monkeypatch.setattr(diff_calls, "FRESH_MS", -1)
    asked = look_at_diff(interlock.dispatch, task, SOURCE)
    monkeypatch.setattr(diff_calls, "ANSWER_MS", -1)
    silent = look_at_diff(interlock.dispatch, task, SOURCE)

    assert (asked.state, silent.state) == (DiffState.ASKED, DiffState.UNANSWERED)
    assert asked.files == silent.files == compared.files
    assert asked.compared_ms
    assert asked.detail.endswith("Until then, this is what it answered before.")
    assert silent.detail.startswith("The worker on anvil, where the files are, has not answered")
    del published


def test_commands_print_the_difference_of_a_task_over_http(
    served: TestClient,
    published: Published,
    compared: Compared,
    task: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared.files = (
        FileDiff("a.py", "changed", "-old\n+\x1b[2J\n", "cut: 9 of 99 bytes are shown"),
    )
    monkeypatch.setenv("INTERLOCK_API_URL", URL)
    monkeypatch.setattr(httpx2, "Client", lambda **_: served)

    printed = CliRunner().invoke(app, ["task", "diff", task.id])

    data = CliRunner().invoke(app, ["task", "diff", task.id, "--json"])

    assert json.loads(data.stdout)["files"][0]["text"] == "-old\n+\x1b[2J\n"
    assert printed.stdout == (
        "-old\n+\\x1b[2J\nchanged a.py (cut: 9 of 99 bytes are shown)\n1 more files are changed\n"
    )
    del published

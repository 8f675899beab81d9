"""Documents and their chunks: the family of the page, with real workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interlock.workers.client import Client
from interlock.workers.config import environment_without_settings, read_settings
from tests.waiting import until
from tests.workers.engine.own_systems.programs import DOCUMENTS, READY_S


def family_of(client: Client, document: str, chunks: list[str], **fields: int) -> list[str]:
    """Hand a document in; return the ids of its chunks once all of them are created."""
    payload = {"chunks": chunks, **fields}
    client.submit(payload, id=document, machine="document")
    views = client.dispatch.views
    until(lambda: len(views.children(document)) == len(chunks), what="the chunks", within_s=READY_S)
    return [str(one) for one in views.children(document)]


def test_no_worker_starts_with_children_of_a_machine_that_is_missing(
    project: Path, environment: dict[str, str]
) -> None:
    table = DOCUMENTS.replace(', "chunk": "documents:CHUNK"', "").replace('"document", "chunk"', "")
    (project / "documents.py").write_text(table, "utf-8")
    variables = {**environment_without_settings(), **environment}
    started = subprocess.run(
        [sys.executable, "-c", "import interlock.workers.main"],
        cwd=project,
        env=variables | {"INTERLOCK_SYSTEMS": "documents"},
        check=False,
        capture_output=True,
        text=True,
    )

    assert started.returncode == 1
    assert "interlock: document: its chunks are of chunk, which is no machine" in started.stderr


def test_a_document_is_joined_from_chunks_of_another_machine(
    added: None, worker: Path, environment: dict[str, str]
) -> None:
    del added
    client = Client(read_settings(environment), actor="ann")
    chunks = [f"word{number} more" for number in range(200)]
    chunks[7] = " "
    ids = family_of(client, "doc-1", chunks, losses_max=2)
    until(lambda: client.show("doc-1").state == "done", what="the join", within_s=READY_S)

    data = client.show("doc-1").data
    words = [text.split()[0] for text in chunks if text.strip()]
    assert (data["tally"], data["lost"]) == ({"done": 199, "failed": 1}, [ids[7]])
    assert data["summary"] == " ".join(words), "in the order of the list"
    assert ids == [f"doc-1/2.{number}" for number in range(1, 201)]
    # No sweep runs here: each message found its effect at once.
    assert client.dispatch.rejected.counts() == {}
    assert "rejected" not in worker.read_text("utf-8")


def test_the_chunks_of_a_document_use_its_budget_to_the_end_and_never_more(
    added: None, worker: Path, environment: dict[str, str]
) -> None:
    del added, worker
    client = Client(read_settings(environment), actor="ann")
    family_of(client, "doc-4", ["two words"] * 40, losses_max=100, tokens=41)
    until(lambda: client.show("doc-4").state == "done", what="the join", within_s=READY_S)

    # A chunk reserves 4 tokens and uses 2: the last that fits begins when 36 are used.
    document = client.show("doc-4")
    assert document.data["tally"] == {"done": 19, "failed": 21}
    counters = document.counters
    assert (counters["tree.tokens"], counters["reserved.tokens"]) == (38, 0)


def test_a_document_that_is_cancelled_or_lost_leaves_no_chunk_at_work(
    added: None, worker: Path, environment: dict[str, str]
) -> None:
    del added, worker
    client = Client(read_settings(environment), actor="ann")
    client.submit({"chunks": ["a", " ", *["b"] * 30]}, id="doc-2", machine="document")
    client.submit({"chunks": ["c"] * 200}, id="doc-3", machine="document")
    until(lambda: bool(client.dispatch.views.children("doc-3")), what="a chunk", within_s=READY_S)
    client.cancel("doc-3")

    def at_rest() -> bool:
        views, documents = client.dispatch.views, ["doc-2", "doc-3"]
        chunks = [str(chunk) for one in documents for chunk in views.children(one)]
        family = views.records([*documents, *chunks]).values()
        return all(one.state in ("done", "failed") and not one.entries for one in family)

    until(at_rest, what="the end of both families", within_s=READY_S)
    assert client.show("doc-2").data["lost"] == ["doc-2/2.2"]
    assert [client.show(one).state for one in ("doc-2", "doc-3")] == ["failed", "failed"]

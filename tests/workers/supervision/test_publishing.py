"""A worker publishes the output of its computer's agents: the newest part, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.store.outputs import PART_BYTES_MAX, OutputPart, OutputSource
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import look_at
from interlock.workers.engine.printed_output import OutputState
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of
from tests.workers.supervision.published import Published

SECRET = "sesame-open!"


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str, tmp_path: Path) -> Client:
    """Return a client of another computer: it has none of the files."""
    return client_of(server.url, prefix, home=tmp_path / "elsewhere", host="desk")


@pytest.fixture
def published(interlock: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Published:
    monkeypatch.setenv("A_TOKEN", SECRET)
    return Published(interlock, tmp_path / "home", "anvil")


def part_of(interlock: Client, source: OutputSource) -> OutputPart:
    found = look_at(interlock.dispatch, {"": source})[""]
    assert (found.state, found.sentence) == (OutputState.KNOWN, "")
    assert found.part
    return found.part


def test_only_the_newest_part_is_published_and_no_secret_in_it(
    interlock: Client, published: Published
) -> None:
    source = published.printed("agents/owl/1/000001", f"{SECRET}\nready\n", f"lost {SECRET}")
    first = part_of(interlock, source)
    # The newest part begins within the secret.
    published.printed(source.folder, SECRET + "x" * (PART_BYTES_MAX - 5))
    second = part_of(interlock, source)

    assert first.output == b"*" * len(SECRET) + b"\nready\n"
    assert first.errors == b"lost " + b"*" * len(SECRET)
    assert second.output == b"*****" + b"x" * (PART_BYTES_MAX - 5)
    assert second.end == PART_BYTES_MAX - 5 + len(SECRET)
    published.printed(source.folder, "y" * 2 * PART_BYTES_MAX)
    assert part_of(interlock, source).output == b"y" * PART_BYTES_MAX


def test_a_run_that_was_replaced_never_shows_in_the_output_of_the_next(
    interlock: Client, published: Published
) -> None:
    former = published.printed("agents/owl/1/000001", "former\n")
    present = published.printed("agents/owl/1/000002", "present\n")
    published.printed(former.folder, "former\nlate\n")

    assert part_of(interlock, present).output == b"present\n"
    assert part_of(interlock, former).output == b"former\nlate\n"


def test_what_is_asked_for_is_published_only_from_below_the_home(
    published: Published, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    for name in ("output.log", "errors.log"):
        (tmp_path / "other" / name).write_text("of another program")

    found = published.look("../other")

    assert found.state is OutputState.NOT_KEPT
    assert found.sentence == (
        "anvil has no output of it: it has not started, or its files were deleted."
    )

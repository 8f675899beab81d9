"""Commands read what agents print from the parts that their computers publish."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.store.outputs import PART_BYTES_MAX, OutputSource
from interlock.workers.client import Client
from interlock.workers.engine import agent_output, printed_output
from interlock.workers.engine.printed_output import (
    LEFT_OUT,
    NoOutputError,
    OutputReader,
    PrintedOutput,
)
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import client_of
from tests.workers.supervision.published import Published

FOLDER = "agents/owl/1/000001"
SOURCE = OutputSource("anvil", FOLDER)


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def published(interlock: Client, tmp_path: Path) -> Published:
    return Published(interlock, tmp_path, "anvil")


def reader_of(interlock: Client, *, from_now: bool = False) -> OutputReader:
    def look(position: int) -> PrintedOutput:
        return agent_output.look_at(interlock.dispatch, {"": SOURCE})[""].printed(position)

    return OutputReader(look, from_now=from_now)


def test_what_is_printed_is_read_once_and_no_character_is_cut_in_two(
    interlock: Client, published: Published
) -> None:
    reader, printed = reader_of(interlock), "aä€".encode()
    assert reader.read() == ""

    found = []
    for length in range(1, len(printed) + 1):
        (published.home / FOLDER).mkdir(parents=True, exist_ok=True)
        for name in ("output.log", "errors.log"):
            (published.home / FOLDER / name).write_bytes(printed[:length])
        published.publisher.publish()
        found.append(reader.read())

    assert [text for text in found if text] == ["a", "ä", "€"]


@pytest.mark.parametrize(
    ("first", "second", "read"),
    [
        ("one\n", "one\ntwo\n", "two\n"),
        ("one\n", "one\n", ""),
        ("one\n", "x" * (PART_BYTES_MAX + 5), f"{LEFT_OUT}{'x' * PART_BYTES_MAX}"),
        ("a line that was cut out\n", "short\n", f"{LEFT_OUT}short\n"),
    ],
)
def test_a_reader_from_now_begins_at_the_end_and_says_what_is_left_out(
    interlock: Client, published: Published, first: str, second: str, read: str
) -> None:
    published.printed(FOLDER, first)
    reader = reader_of(interlock, from_now=True)
    assert reader.read() == ""
    published.printed(FOLDER, second)

    assert reader.read() == read


def test_a_reader_says_that_the_computer_does_not_answer(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_output, "ANSWER_MS", -1)
    monkeypatch.setattr(printed_output, "ANSWER_S", 0)
    reader = reader_of(interlock)

    with pytest.raises(NoOutputError, match="The worker on anvil, where the output is"):
        reader.rest()

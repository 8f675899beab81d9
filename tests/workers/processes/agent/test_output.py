"""An agent's output stays within its limits, whatever the sizes of its pieces."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workers.processes.agent.output import (
    BYTES_WAITING_MAX,
    LINE_BYTES_MAX,
    LINES_WAITING_MAX,
    LOG_BYTES_MIN,
    TAIL_BYTES_MAX,
    OutputLog,
    PendingLines,
)


def parts(text: bytes) -> tuple[bytes, int, bytes]:
    head, _, rest = text.partition(b"\n[... ")
    missing, _, tail = rest.partition(b" bytes were cut here ...]\n")
    return head, int(missing), tail


def test_a_log_that_fits_is_kept_as_it_is(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "log", bytes_max=LOG_BYTES_MIN)
    log.write(b"a" * (LOG_BYTES_MIN - 1))
    log.write(b"b")
    log.close()

    assert (tmp_path / "log").read_bytes() == b"a" * (LOG_BYTES_MIN - 1) + b"b"
    assert not log.cut


@pytest.mark.parametrize("seed", range(20))
def test_a_log_keeps_its_two_ends_for_any_pieces(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    bytes_max = chosen.randrange(LOG_BYTES_MIN, 3 * LOG_BYTES_MIN)
    log, written = OutputLog(tmp_path / "log", bytes_max=bytes_max), b""
    for number in range(chosen.randrange(5, 60)):
        piece = b"%d," % number * chosen.randrange(1, 2_000)
        log.write(piece)
        written += piece
        assert (tmp_path / "log").stat().st_size <= bytes_max
    log.close()
    text = (tmp_path / "log").read_bytes()

    assert log.tail() == written[-TAIL_BYTES_MAX:].decode()
    assert log.cut == (len(written) > bytes_max)
    if log.cut:
        head, missing, tail = parts(text)
        assert head == written[: bytes_max // 2]
        assert len(tail) >= bytes_max // 4
        assert written.endswith(tail)
        assert len(head) + missing + len(tail) == len(written)
    else:
        assert text == written


def test_a_full_disk_only_cuts_the_log(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "log", bytes_max=LOG_BYTES_MIN)
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full")
    log.close()
    log = OutputLog(full, bytes_max=LOG_BYTES_MIN)
    log.write(b"lost\n")
    log.close()

    assert log.cut
    assert log.tail() == "lost\n"


def test_a_tail_is_text_that_any_log_can_hold(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "log", bytes_max=LOG_BYTES_MIN)
    log.write(b"a\0\xff\n")
    log.close()

    assert log.tail() == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n"


@given(st.lists(st.binary(max_size=12)))
def test_lines_are_the_same_for_any_pieces(pieces: list[bytes]) -> None:
    lines, whole = PendingLines(), b"".join(pieces)
    completed = [lines.write(piece) for piece in pieces]
    lines.end()

    assert completed == [b"\n" in piece for piece in pieces]
    assert lines.take() == (whole.removesuffix(b"\n").split(b"\n") if whole else [])


def test_a_line_that_is_too_long_keeps_one_byte_over_the_limit() -> None:
    lines = PendingLines()
    for _ in range(3 * LINE_BYTES_MAX // 64_000):
        lines.write(b"x" * 64_000)
    lines.write(b"\nshort\n")

    assert [len(line) for line in lines.take()] == [LINE_BYTES_MAX + 1, len("short")]


def test_too_many_lines_or_bytes_are_full_until_they_are_taken() -> None:
    lines = PendingLines()
    lines.write(b"\n" * (LINES_WAITING_MAX - 1))
    assert not lines.full
    lines.write(b"\n")
    many = lines.full
    lines.take()
    emptied = lines.full
    lines.write((b"x" * LINE_BYTES_MAX + b"\n") * (BYTES_WAITING_MAX // LINE_BYTES_MAX))

    assert (many, emptied, lines.full) == (True, False, True)

"""However its output fails, and whenever it is interrupted, a command ends without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from interlock.workers.config import environment_without_settings

ROOT = Path(__file__).parents[3]
INTERLOCK = [sys.executable, "-m", "interlock"]


def run(
    command: list[str], *, stdout: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment_without_settings() | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_a_reader_that_has_seen_enough_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run([*INTERLOCK, "--help"], stdout=writer)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_device_is_told_in_one_sentence() -> None:
    device = os.open("/dev/full", os.O_WRONLY)
    try:
        done = run([*INTERLOCK, "--help"], stdout=device)
    finally:
        os.close(device)

    sentence = "error the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_a_closed_output_is_told_in_one_sentence() -> None:
    done = run(["sh", "-c", 'exec "$@" >&-', "sh", *INTERLOCK, "--help"])

    sentence = "error the output cannot be written: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_what_the_encoding_lacks_is_written_as_an_escape() -> None:
    done = run([*INTERLOCK, "жизнь"], PYTHONIOENCODING="latin-1")

    assert done.returncode == 2
    assert "No such command '\\u0436" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_before_the_imports_are_done_ends_in_silence(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")

    done = run([*INTERLOCK, "--help"], PYTHONPATH=str(tmp_path), stdout=subprocess.PIPE)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

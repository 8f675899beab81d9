"""The Python environment of the peers: made once from a lock of its own, apart from Interlock's."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path
from shutil import rmtree

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "peers.lock"
FOLDER = ROOT / ".peers-venv"
MADE = "made"  # the digest of the lock that it was made from


class MissingError(RuntimeError):
    """Something of a peer is not here and cannot be installed; the message says what and why."""


def peers_python() -> Path:
    """Return the Python that has the peers; make its environment where that is missing or old."""
    digest, made = hashlib.sha256(LOCK.read_bytes()).hexdigest(), FOLDER / MADE
    python = FOLDER / "bin" / "python"
    if made.exists() and made.read_text() == digest:
        return python
    rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    options = ["--quiet", "--require-hashes", "--no-deps", "-r", str(LOCK)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = lines[-1] if lines else f"pip exited with {done.returncode}"
        raise MissingError(f"the peers could not be installed from {LOCK.name}: {why}")
    made.write_text(digest)
    return python


def version_of(name: str) -> str:
    """Return the version of a peer that the lock pins."""
    pins = dict(
        line.split(" ")[0].split("==")
        for line in LOCK.read_text("utf-8").splitlines()
        if "==" in line
    )
    return pins[name]


if __name__ == "__main__":
    sys.stdout.write(f"{peers_python()}\n")

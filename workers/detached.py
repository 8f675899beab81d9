"""Starts a keeper that outlives its starter: a process of its own, with its leases taken over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from kernel.errors import KernelError

KEEPER_S = 60.0
ERROR_LENGTH_MAX = 2_000
KEPT = "kept"


class KeeperError(RuntimeError):
    """A keeper could not take over. The message says why."""


class Keeper(Protocol):
    """Who keeps a process to its end; to make one takes its leases over."""

    def keep(self) -> None:
        """Keep it to its end."""


def start_detached(
    module: str,
    brief: Path,
    renew: Callable[[], object],
    *,
    every_s: float,
    pass_fds: Sequence[int] = (),
) -> None:
    """Start `python -m MODULE BRIEF` and wait until it has taken over. Raises KeeperError.

    Meanwhile the leases are renewed every so often.
    """
    command = [sys.executable, "-m", module, str(brief)]
    until = time.monotonic() + KEEPER_S
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
    ) as starting:
        while True:
            try:
                _, said = starting.communicate(timeout=every_s)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    starting.kill()
                    raise KeeperError(f"its keeper took nothing over in {KEEPER_S:g} s") from None
                renew()
    if starting.returncode != 0:
        why = said.decode(errors="replace").strip() or "it said nothing"
        raise KeeperError(f"its keeper ended before it took over: {why[-ERROR_LENGTH_MAX:]}")


def detach(papers: Path, make: Callable[[], Keeper]) -> None:
    """Let who started this process go when the keeper has taken over, and keep on alone."""
    heard, told = os.pipe()
    if os.fork():
        os.close(told)
        said = os.read(heard, 4_096).decode(errors="replace")
        if said != KEPT:
            sys.stderr.write(said or "it ended without a word")
            sys.stderr.flush()
        # At once: what was imported has nothing to tidy up, and the keeper is waited for.
        os._exit(0 if said == KEPT else 1)
    os.close(heard)
    os.setsid()
    log = os.open(papers / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        keeper = make()
    except (KernelError, ValueError) as refusal:
        os.write(told, f"{type(refusal).__name__}: {refusal}".encode()[:4_000])
        os._exit(1)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.write(told, KEPT.encode())
    os.close(told)
    keeper.keep()

"""Handlers of quick effects stay on the worker's processor; the others may use all."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.systems import handlers
from tests.races.in_process_worker import InProcessWorker

EFFECTS = {effect for machine in MACHINES.values() for effect in machine.effects.values()}
QUICK = sorted(effect.name for effect in EFFECTS if effect.quick)


def test_a_handler_has_every_processor_unless_its_effect_is_quick(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path)
    widened: list[str] = []

    @contextmanager
    def wide() -> Iterator[None]:
        widened.append("here")
        yield

    monkeypatch.setattr(worker.runner.affinity, "wide", wide)
    of = worker.create_job("g/a", dir=str(tmp_path / "out"))
    worker.perform(of, "subscription")
    worker.perform(of, "cascade")
    assert widened == []

    worker.perform(of, "manifest")
    assert widened


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_effect_uses_no_files_and_waits_for_no_process(name: str) -> None:
    assert not any(effect.local for effect in EFFECTS if effect.name == name)
    mine = [handler for task, handler in handlers().items() if task.partition(".")[2] == name]
    assert mine
    assert not any(map(inspect.iscoroutinefunction, mine))

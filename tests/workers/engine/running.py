"""A runner in the test's own process over a real store, with real handlers or those of a test."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore

from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Entry, Record
from interlock.workers.client import Client
from interlock.workers.config import Settings, read_settings
from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
)
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.work import Handler
from interlock.workers.systems import handlers
from tests.end_to_end.deployment import thread

THREAD = MACHINES["thread"]


def settings_for(url: str, prefix: str, **more: str) -> Settings:
    """Return settings for a prefix: short leases, long sweeps and a model that is not there."""
    variables = {
        "INTERLOCK_STORE_URL": url,
        "INTERLOCK_PREFIX": prefix,
        "INTERLOCK_NAMESPACE": prefix,
        "INTERLOCK_CAPABILITIES": "tests.end_to_end.threads.capabilities",
        "INTERLOCK_MODEL": "local",
        "INTERLOCK_MODEL_PRICES": "local=0/0",
        "INTERLOCK_MODEL_BASE_URL": "http://127.0.0.1:9/v1",
        "INTERLOCK_LEASE_S": "1.5",
        "INTERLOCK_SWEEP_BUDGET_S": "600",
    }
    return read_settings({**variables, **more})


def perform(runner: Runner, machine: Machine, name: str, handler: Handler, key: str) -> str:
    """Perform an effect, and return its line behind the state that Celery shows."""
    try:
        return runner.perform(machine, name, handler, key)
    except EffectRetriedError as retry:
        return f"retry: {retry.message}"
    except EffectFailedError as failure:
        return f"failure: {failure}"
    except EffectNotOwedError as refusal:
        return f"revoked: {refusal}"
    except Ignore as ignored:
        return f"ignored: {ignored}"


class Running:
    """A client, and the runner of a worker."""

    def __init__(self, settings: Settings) -> None:
        self.client = Client(settings, actor="person")
        self.dispatch = self.client.dispatch
        self.runner = Runner(self.dispatch, Resources(settings))

    def entry(self, record_id: str, name: str = "") -> Entry:
        """Return the entry of an effect that a record has now."""
        entries = self.client.show(record_id).entries
        return next(entry for entry in entries if not name or entry.name == name)

    def perform(self, record_id: str, handler: Handler | None = None, name: str = "") -> str:
        """Perform an effect of a record, with the real handler or one of the test."""
        entry = self.entry(record_id, name)
        chosen = handler or handlers()[f"thread.{entry.name}"]
        return perform(self.runner, THREAD, entry.name, chosen, entry.key(record_id))

    def approved(
        self, capability: str = "jot", record_id: str = "one", **parameters: Any
    ) -> Record:
        """Return a thread in which a capability is to be executed."""
        self.client.submit(thread(capability, **parameters), machine="thread", id=record_id)
        for _ in range(3):
            self.perform(record_id, name="inference")
        record = self.client.show(record_id)
        assert record.state == "executing", record.state
        return record

"""The worker of a kit: the engine's own runner in the thread of the test, and what surrounds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil, inf

import redis
from celery.exceptions import Ignore

from interlock.kernel.machine import Machine
from interlock.kernel.store.clocks import Clocks
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.store.indexes import ServerCheck
from interlock.testing.wire import CrashedError
from interlock.workers.config import Settings
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
)
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.isolation import Isolation, Performed
from interlock.workers.engine.passes import Passes
from interlock.workers.engine.publisher import Publisher
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.time_limits import TimeLimits, Watched
from interlock.workers.engine.work import EffectWork, Handler


class Messages(Publisher):
    """The broker of a kit: the messages that wait, in the order in which they were sent."""

    def __init__(self, settings: Settings, machines: Mapping[str, Machine]) -> None:
        self.settings, self.machines = settings, machines
        self.waiting: deque[EffectMessage] = deque()
        self.copies: dict[str, int] = {}  # of the next message about `machine.step`: 0 loses it

    def publish(self, messages: Sequence[EffectMessage]) -> int:
        """Let messages wait."""
        for message in messages:
            self.waiting.extend([message] * self.copies_of(message))
        return len(messages)

    def copies_of(self, message: EffectMessage) -> int:
        """Return how often a message comes: 0 if it is lost."""
        return self.copies.pop(f"{message.machine}.{message.name}", 1)

    def publish_to_host(self, message: EffectMessage, host: str) -> None:
        """Let a message wait: the test is the only computer."""
        del host
        self.publish([message])

    def queue_lengths(self, names: Collection[str]) -> dict[str, int]:
        """Return that no queue is long: the kit takes each message before time passes."""
        return dict.fromkeys(names, 0)

    def oldest_sent_s(self, names: Collection[str]) -> dict[str, int]:
        """Return that no message is old."""
        del names
        return {}


class KitPasses(Passes):
    """The passes of a kit's sweeps: its server never restarts, and only the kit sets the clock."""

    def check_server(self, partition: int, *, passing: bool) -> ServerCheck:
        """Return that a sweep may call old holders lost."""
        del partition, passing
        return ServerCheck("", gate_open=True, changed=False, server="")

    def note(self) -> None:
        """Note nothing."""


class KitDispatch(Dispatch):
    """The connection of a kit to its own store."""

    def __init__(
        self,
        settings: Settings,
        machines: Mapping[str, Machine],
        client: redis.Redis,
        messages: Messages,
    ) -> None:
        self.messages = messages
        super().__init__(settings, machines, messages)
        self.__dict__["client"] = client
        self.__dict__["passes"] = KitPasses(
            settings, machines, self.indexes, Clocks(client, self.keys), self.views
        )


class KitHeartbeat(Heartbeat):
    """Renews leases in the thread of the test, whenever time has passed."""

    def _start(self) -> None:
        """Start no thread."""


class KitLimits(TimeLimits):
    """Ends attempts in the thread of the test, by the time of the kit."""

    def _start(self) -> None:
        """Start no thread."""

    def _act(self, over: Watched) -> None:
        if over.work.limit.has_passed:
            self._write_off(over)
        else:
            super()._act(over)


class InTheTest(Isolation):
    """Tries an effect whose worker was lost in the test too: a fake is known nowhere else."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker

    def perform(self, work: EffectWork) -> Performed:
        """Perform an effect under the lease of the one who asks."""
        nonce = work.lease.token.partition("-")[2]
        machine, name = work.machine, work.lease.name
        handler = self.worker.handler(machine.name, name)
        return Performed.of(
            lambda: self.worker.runner.perform(machine, name, handler, work.key, nonce=nonce)
        )


class Worker:
    """Performs the effects that messages name."""

    def __init__(
        self, dispatch: KitDispatch, handlers: Mapping[str, Handler], now_ms: Callable[[], int]
    ) -> None:
        self.dispatch, self._handlers = dispatch, handlers
        self.runner = Runner(dispatch, Resources(dispatch.settings))
        self.runner.heartbeat = KitHeartbeat(lambda: dispatch.leases, lease_s=1, begin=lambda: None)
        self.runner.limits = KitLimits(self.runner.end_hung, lambda: now_ms() / 1_000)
        self.runner.isolation = InTheTest(self)

    @property
    def is_at_work(self) -> bool:
        """Whether the test is inside of a step."""
        return self.runner.heartbeat.count() > 0

    @property
    def next_ms(self) -> int | None:
        """When the time of the first attempt at work is over; None if none is at work."""
        at = self.runner.limits.next
        return None if at == inf else ceil(at * 1_000)

    def go_on(self) -> None:
        """Renew the leases of what is at work, pass orders on, and end what takes too long."""
        self.runner.heartbeat.renew()
        self.runner.limits.look()

    def handler(self, machine: str, name: str) -> Handler:
        """Return what runs an effect of a machine."""
        return self._handlers[f"{machine}.{name}"]

    def knows(self, message: EffectMessage) -> bool:
        """Whether a message is of an effect of the workflows that are at work."""
        return f"{message.machine}.{message.name}" in self._handlers

    def perform(self, message: EffectMessage) -> str:
        """Perform the effect of a message, and return a line that says what came of it."""
        machine = self.dispatch.lifecycle.machine(message.machine)
        handler = self.handler(machine.name, message.name)
        try:
            return self.runner.perform(machine, message.name, handler, message.key)
        except EffectRetriedError as retried:
            return f"tried again later: {retried.message}"
        except EffectFailedError as failure:
            return f"failed: {failure}"
        except EffectNotOwedError as refusal:
            return f"not owed any more: {refusal}"
        except Ignore as ignored:
            return f"left to another: {ignored}"
        except CrashedError:
            return "its worker was lost"

"""A call of a capability by an effect."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.workers.engine.tracing import traced_tool
from interlock.workers.engine.work import EffectWork
from interlock.workers.gateways.capabilities.call import call_capability
from interlock.workers.gateways.capabilities.result import Result


class CapabilityCall:
    """One call of a capability by an effect, with all its arguments.

    Raises a CallError if no capability has this name, or if the parameters do not fit it. To find
    the capability may take as long as a server takes to start: make the call's object in a thread.
    """

    def __init__(
        self,
        work: EffectWork[Any],
        name: str,
        parameters: Mapping[str, Any],
        item_ids: Sequence[str] = (),
    ) -> None:
        registry = work.records.capabilities
        self.capability, self.parameters = registry[name], parameters
        runtime = {
            "record_id": work.record.id,
            "key": work.key,
            "token_number": work.lease.token_number,
            "item_ids": [*item_ids],
        }
        self._arguments = registry.bind(name, parameters, runtime)
        self._work = work
        self.was_stopped = False  # an order to stop came before its end

    async def run(self, on_step: Callable[[Mapping[str, str]], None] | None = None) -> Result:
        """Call the capability, and return its result. `on_step` gets each step that it takes.

        The first order to stop cancels an async capability: where that ends it, CancelledError is
        raised. A synchronous one is in a thread, which cannot be stopped: it runs to its end, and
        its result is returned even to a person who revoked it. If it were called stopped earlier,
        the next call could run beside it.
        """
        loop = asyncio.get_running_loop()
        found, deadline_s = self.capability, self.capability.deadline_s
        call = partial(call_capability, found, self._arguments, deadline_s=deadline_s)
        task = asyncio.ensure_future(traced_tool(found.name, partial(call, on_step=on_step)))
        can_stop = inspect.iscoroutinefunction(found.call)

        def stop() -> None:
            if can_stop and not self.was_stopped:
                task.cancel()
            self.was_stopped = True

        def pass_on() -> None:
            loop.call_soon_threadsafe(stop)

        self._work.call_on_order(pass_on)
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                stop()
        return task.result()

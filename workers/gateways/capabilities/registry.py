"""The capabilities a thread may execute: found by name, checked, bound and run.

It never decides whether one may run, and never raises for what a capability does: whatever it
does within its deadline or beyond, `run` returns one typed result.
"""

from __future__ import annotations

import asyncio
import contextvars
import difflib
import importlib
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Protocol

from pydantic import Field

from interlock.kernel.errors import CallError, InvalidPayloadError, KernelError
from interlock.kernel.machines.threads.thread.payloads import Part
from interlock.kernel.record import CHILDREN_MAX
from interlock.kernel.scales import Level
from interlock.workers.gateways.capabilities.capability import (
    RUNTIME_PARAMETERS,
    Capability,
    CapabilityDefectError,
    CapabilityError,
    Steps,
    capability,
    problems_of,
)
from interlock.workers.gateways.capabilities.extension import (
    ExtensionError,
    ServerTable,
    read_extensions,
)
from interlock.workers.gateways.capabilities.result import (
    Failed,
    InvalidResultError,
    Relationship,
    Result,
    Split,
    Succeeded,
    check_split,
    fit,
)
from interlock.workers.text import sentence

# What the effects need of a capability, importable from one place.
__all__ = [
    "RUNTIME_PARAMETERS",
    "Capability",
    "CapabilityError",
    "Failed",
    "InvalidParametersError",
    "Registry",
    "Result",
    "Split",
    "Steps",
    "Succeeded",
    "UnknownCapabilityError",
    "capability",
    "load_registry",
    "run",
]

CLEAN_UP_S_MAX = 10.0
STRAY_CALLS_MAX = 64
NEAR_NAMES_MAX = 3
_THREAD = "interlock-capability-"
_STRAY = "interlock-stray-"


class UnknownCapabilityError(CallError):
    """No capability has this name. Choose one of the near ones, or add its module."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        hint = f"did you mean {' or '.join(near)}?" if near else "see the catalog for those we have"
        super().__init__(f"there is no capability {sentence(name, length_max=80)!r}; {hint}")
        self.name, self.near = name, tuple(near)


class InvalidParametersError(InvalidPayloadError):
    """The parameters do not fit the capability; `problems` has each with its path."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        super().__init__(f"the parameters of {name}", problems)
        self.name = name


class MissingRuntimeError(KernelError):
    """The worker did not give a run-time parameter that a capability takes. Correct the worker."""

    def __init__(self, name: str, parameter: str) -> None:
        super().__init__(f"{name} takes the run-time parameter {parameter!r}: give it to bind")


class Server(Protocol):
    """Who offers capabilities from another process; each method answers, however it fares."""

    names: tuple[str, ...]

    def offered(self) -> tuple[Capability, ...]:
        """Return what can be called now; the first time it may ask the server, bounded."""

    def capability(self, name: str) -> Capability:
        """Return one of `names`, even if the server is down: calling it then gives Failed."""


class Registry:
    """All capabilities of this process, by name. It never changes once made."""

    __slots__ = ("_own", "_servers")

    def __init__(self, own: Iterable[Capability], servers: Iterable[Server] = ()) -> None:
        """Take them over. Raises CapabilityDefectError when two have one name."""
        by_name: dict[str, Capability] = {}
        by_server: dict[str, Server] = {}
        for one in own:
            if by_name.setdefault(one.name, one) is not one:
                raise CapabilityDefectError(one.name, "another one has the same name")
        for server in servers:
            for name in server.names:
                if name in by_name or by_server.setdefault(name, server) is not server:
                    raise CapabilityDefectError(name, "another one has the same name")
        self._own = MappingProxyType(by_name)
        self._servers = MappingProxyType(by_server)

    def __getitem__(self, name: str) -> Capability:
        """Return a capability. Raises UnknownCapabilityError."""
        if name in self._own:
            return self._own[name]
        if name in self._servers:
            return self._servers[name].capability(name)
        names = [*self._own, *self._servers]
        raise UnknownCapabilityError(name, difflib.get_close_matches(name, names, NEAR_NAMES_MAX))

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a capability, reachable or not."""
        return name in self._own or name in self._servers

    def catalog(self) -> tuple[Capability, ...]:
        """Return what a model may choose from, by name.

        An MCP tool whose server does not answer is left out, with a warning in the log. The first
        call in a process may take as long as the slowest server may take to start, so make it
        when the worker starts, not inside an event loop.
        """
        servers = dict.fromkeys(self._servers.values())
        remote = [one for server in servers for one in server.offered()]
        return tuple(sorted([*self._own.values(), *remote], key=lambda one: one.name))

    def check(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Check what a model or a person proposes to call.

        Raises UnknownCapabilityError, or InvalidParametersError with every problem.
        """
        one = self[name]
        properties = one.parameters.get("properties", {})
        bound = sorted(set(parameters) & (RUNTIME_PARAMETERS - set(properties)))
        problems = [f"{key}: it is filled in at run time and cannot be set" for key in bound]
        rest = {key: value for key, value in parameters.items() if key not in bound}
        try:
            # What JSON cannot carry would pass the schema and fail in the log.
            fit(rest, name="parameters")
            problems += problems_of(one.parameters, rest)
        except InvalidResultError as error:
            problems.append(str(error))
        if problems:
            raise InvalidParametersError(name, problems)

    def bind(
        self, name: str, parameters: Mapping[str, Any], runtime: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments of a call: the parameters, and over them the run-time values.

        Raises InvalidParametersError for parameters that `check` refuses.
        """
        self.check(name, parameters)
        one = self[name]
        wanted = one.runtime - {"steps"}
        if missing := sorted(wanted - set(runtime)):
            raise MissingRuntimeError(name, missing[0])
        return {**parameters, **{key: runtime[key] for key in wanted}}


def load_registry(specification: str | None) -> Registry:
    """Build the registry that INTERLOCK_CAPABILITIES describes; `decompose` is always in it.

    Of each module it takes CAPABILITIES or, without that, every capability the module holds.
    Starts no server. Raises ExtensionError or CapabilityDefectError.
    """
    extensions = read_extensions(specification)
    own = [decompose]
    for module in extensions.modules:
        listed = getattr(module, "CAPABILITIES", None)
        candidates = vars(module).values() if listed is None else listed
        found = [one for one in candidates if isinstance(one, Capability)]
        if listed is not None and len(found) != len(listed):
            raise ExtensionError(module.__name__, "CAPABILITIES has members without @capability")
        # A module that imports another's capability shows the same object again.
        own += [one for one in found if all(one is not known for known in own)]
    return Registry(own, _servers(extensions.servers))


async def run(
    one: Capability,
    bound: Mapping[str, Any],
    *,
    deadline_s: float,
    on_step: Callable[[Mapping[str, str]], None] | None = None,
) -> Result:
    """Run a capability with the arguments from `bind`, to its end or its deadline.

    `on_step` is told each step as it is taken, in the thread that takes it. Cancelling cancels an
    async capability and waits until it is over, at most until its deadline and ten seconds more:
    where it succeeded after all, or goes on, that is the result.
    """
    steps = Steps(on_step)
    arguments = {**bound, "steps": steps} if "steps" in one.runtime else dict(bound)
    if deadline_s <= 0:
        return Failed("deadline", f"{one.name} was not started: its deadline had passed")
    if inspect.iscoroutinefunction(one.call):
        outcome = await _run_async(one, arguments, deadline_s)
    else:
        outcome = await _run_in_thread(one, arguments, deadline_s)
    return outcome if outcome.steps else replace(outcome, steps=steps.taken())


class Child(Part):
    """One part of the work."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(max_length=20_000)]


@capability(
    idempotent=True,
    irreversibility=Level.LOW,
    deadline_s=5,
    examples=("Do these three things: ...", "Split this into separate pieces of work"),
)
def decompose(
    *,
    children: Annotated[
        list[Child],
        Field(
            min_length=1,
            max_length=CHILDREN_MAX,
            description="The parts; each becomes a thread of its own.",
            json_schema_extra={"x-from": "list"},
        ),
    ],
    relationship: Annotated[
        Relationship,
        Field(
            description="decompose: all parts together are the work; group: they only belong "
            "together; singular: one of them will do."
        ),
    ] = "decompose",
) -> Split:
    """Split a request that asks for several separate things into one thread for each of them."""
    return Split(
        tuple(child.model_dump(mode="json", exclude_unset=True) for child in children), relationship
    )


def _servers(tables: Sequence[ServerTable]) -> tuple[Server, ...]:
    if not tables:
        return ()
    # By name, and only when asked for: that client takes a second to import.
    client = importlib.import_module("interlock.workers.gateways.capabilities.mcp")
    servers: tuple[Server, ...] = client.servers(tables)
    return servers


async def _run_async(one: Capability, arguments: dict[str, Any], deadline_s: float) -> Result:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(_settle_async(one, arguments))
    until = loop.time() + deadline_s
    late = f"{one.name} did not end within {deadline_s:g} s"
    deaf = Failed("deadline", f"{late} and does not stop; it may still be running")
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline_s)
        if not done:
            task.cancel()
            # Awaited, so that what it started is gone before anybody is told of the failure.
            await asyncio.wait({task}, timeout=CLEAN_UP_S_MAX)
    except asyncio.CancelledError:
        task.cancel()
        # To say earlier that it is gone would let two run at once.
        left_s = max(0.0, until - loop.time()) + CLEAN_UP_S_MAX
        await asyncio.wait({task}, timeout=left_s)
        if not task.done():
            return deaf
        if task.cancelled() or isinstance(task.result(), Failed):
            raise
        return task.result()
    if not task.done():
        return deaf
    if task.cancelled():
        stopped = Failed("deadline", f"{late}; it was stopped")
        return Failed("error", f"{one.name} cancelled itself") if done else stopped
    # Done after all while it was being stopped: the effect has happened, so that is what to tell.
    in_time = done or not isinstance(task.result(), Failed)
    return task.result() if in_time else Failed("deadline", f"{late}; it was stopped")


async def _settle_async(one: Capability, arguments: dict[str, Any]) -> Result:
    # One of the few places to catch everything: any error of user code is an outcome, which goes
    # to a person in a sentence. SystemExit too, or one capability could end the whole worker.
    try:
        return _result(one, await one.call(**arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _failure(error)


async def _run_in_thread(one: Capability, arguments: dict[str, Any], deadline_s: float) -> Result:
    # A thread of its own, and a daemon: a function that hangs can be neither killed nor waited
    # for, so it must not use up a pool's threads nor hold up the exit of the worker.
    strays = sum(thread.name.startswith(_STRAY) for thread in threading.enumerate())
    if strays >= STRAY_CALLS_MAX:
        return Failed("unavailable", f"{strays} calls hang in this worker; restart it")
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[Result] = loop.create_future()

    def settle() -> None:
        result = _settle(one, arguments)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, settled, result)

    context = contextvars.copy_context()
    name = _THREAD + one.name
    thread = threading.Thread(target=context.run, args=(settle,), name=name, daemon=True)
    thread.start()
    try:
        done, _ = await asyncio.wait({settled}, timeout=deadline_s)
    finally:
        # Whoever still runs when nobody waits any more counts as a stray, by its thread's name.
        thread.name = _STRAY + one.name
    if done:
        return settled.result()
    late = f"{one.name} did not end within {deadline_s:g} s"
    return Failed("deadline", f"{late}; it cannot be stopped and may still be running")


def _settle(one: Capability, arguments: dict[str, Any]) -> Result:
    # As in _settle_async; here everything must be an outcome, or the waiting side would hang.
    try:
        return _result(one, one.call(**arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return _failure(error)


def _deliver(settled: asyncio.Future[Result], result: Result) -> None:
    if not settled.done():
        settled.set_result(result)


def _result(one: Capability, value: object) -> Result:
    try:
        match value:
            case Failed():
                return replace(value, detail=sentence(value.detail))
            case Split():
                check_split(value)
                return value
            case Succeeded():
                plain, cut = fit(value.value)
                return replace(value, value=plain, truncated=cut or value.truncated)
            case _:
                plain, cut = fit(value)
                return Succeeded(plain, truncated=cut)
    except InvalidResultError as error:
        return Failed("invalid_result", sentence(f"{one.name} returned no JSON: {error}"))


def _failure(error: BaseException) -> Failed:
    if isinstance(error, CapabilityError):
        return Failed("error", sentence(str(error)) or "it failed without a reason")
    return Failed("error", sentence(f"{type(error).__name__}: {error}"))

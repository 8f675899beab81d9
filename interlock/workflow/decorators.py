"""What `step(...)` and `each(...)` return, to a type checker, and a function that ends a child."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, overload

from interlock.workflow.data import Data
from interlock.workflow.work import Work

D = TypeVar("D", bound=Data)
M = TypeVar("M", bound=Data)
R = TypeVar("R", bound=str | Awaitable[str])
N = TypeVar("N", bound=Awaitable[None] | None)
ASK, SKIP = "ask", "skip"  # what follows when a function has failed for good on a child
DONE, FAILED = "done", "failed"  # the ends of a child


class StepDecorator(Protocol[D]):
    """What `step(...)` returns: it takes a function from the data, or the data and its work."""

    @overload
    def __call__(self, function: Callable[[D], R], /) -> Callable[[D], R]: ...
    @overload
    def __call__(self, function: Callable[[D, Work], R], /) -> Callable[[D, Work], R]: ...


class CleanupDecorator(Protocol[D]):
    """What `at_end(...)` returns: it takes a function from the data, or the data and its work."""

    @overload
    def __call__(self, function: Callable[[D], N], /) -> Callable[[D], N]: ...
    @overload
    def __call__(self, function: Callable[[D, Work], N], /) -> Callable[[D, Work], N]: ...


class EachDecorator(Protocol):
    """What `each(...)` returns: it takes a function from the item, or the item and its work."""

    @overload
    def __call__(self, function: Callable[[M], N], /) -> Callable[[M], N]: ...
    @overload
    def __call__(self, function: Callable[[M, Work], N], /) -> Callable[[M, Work], N]: ...


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a function is async, itself or inside of its decorators."""
    return any(map(inspect.iscoroutinefunction, (function, inspect.unwrap(function))))


async def finished(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what an async function returns, whatever decorators have made of it.

    One that is no longer async is called in a thread: it may wait, or have an event loop of its
    own. What it returns may still have to be awaited.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    result = await asyncio.to_thread(function, *arguments)
    return await result if inspect.isawaitable(result) else result


def ending_as(target: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns the state that follows, where the author's returns None."""
    if is_async(function):

        @wraps(function)
        async def run_async(*arguments: Any) -> str:
            await finished(function, *arguments)
            return target

        return run_async

    @wraps(function)
    def run(*arguments: Any) -> str:
        function(*arguments)
        return target

    return run

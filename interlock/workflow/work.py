"""What a step may use of its work: its id, its key, whether it shall stop, what it saves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn, ParamSpec, TypeVar, cast, overload

from interlock.kernel.blame import PlacedError, blamed
from interlock.kernel.families import is_success
from interlock.kernel.store.saved_results import SavedResult
from interlock.workers.engine.system import Definition
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.redaction import without_secrets
from interlock.workflow.changing import ONCE, settled
from interlock.workflow.data import Data
from interlock.workflow.names import BEGIN, ends_of, families_of
from interlock.workflow.parts import Declared
from interlock.workflow.place import here

Given = ParamSpec("Given")
Result = TypeVar("Result")
M = TypeVar("M", bound=Data)


class AsyncStepError(TypeError):
    """An async step calls what would keep all async steps of its worker waiting."""


SAVED = "work.saved('answer', ask_model, question)"
# Why nothing can be done once in a cleanup, and what to do.
AFTER_AN_END = (
    "after an end, where nobody could be asked whether it was done: let a step before the end do "
    "it, or use work.saved, and give work.key to the other side"
)


class UnseenOnceError(PlacedError, UnusableResultError):
    """A function calls `once` where the import has not seen it. Nothing has begun."""


class UnclearError(PlacedError):
    """What may be done once was begun, and it is not known whether it was done."""


class Work:
    """The work of one step, as its function may use it."""

    def __init__(self, work: EffectWork, flow: Declared) -> None:
        self._work, self._flow = work, flow
        self._data = work.record.data  # as the step has got them
        self._named: set[str] = set()  # the calls of this attempt

    @property
    def id(self) -> str:
        """The id of the record."""
        return self._work.record.id

    @property
    def key(self) -> str:
        """A key of idempotency: every attempt has the same, until the record leaves the state."""
        return self._work.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._work.attempt

    def raise_if_stopped(self) -> None:
        """End this work if the record was cancelled, or the worker shuts down. Call it in loops.

        Raises CancelledError.
        """
        self._work.raise_if_stopped()

    def note(self, text: str) -> None:
        """Write a sentence into the log of the record, where `interlock history` shows it."""
        self._work.note("note", {"text": without_secrets(text)})

    def reserve(self, *, usd: float | Decimal | None = None, **counted: int) -> None:
        """See to it that so much may be used, before it is used: `reserve(tokens=100)`.

        It waits while only what others have reserved is in the way. Raises OverBudgetError where
        the budget is used up.
        """
        _refuse_event_loop("reserve")
        self._check_amounts(counted)
        self._work.reserve(usd=usd, **counted)

    async def reserve_async(self, *, usd: float | Decimal | None = None, **counted: int) -> None:
        """Do as `reserve` does, and let other steps go on meanwhile."""
        self._check_amounts(counted)
        await asyncio.to_thread(self._work.reserve, usd=usd, **counted)

    def spend(self, *, usd: float | Decimal | None = None, **counted: int) -> None:
        """Count what was used, for good: `spend(tokens=87)`.

        What is reserved beyond it is free at the next `reserve`, or when the step ends.
        """
        self._check_amounts(counted)
        self._work.spend(usd=usd, **counted)

    def _check_amounts(self, counted: Mapping[str, int]) -> None:
        """Refuse a slip in the name of an amount, which no budget would limit. Raises TypeError."""
        known = self._flow.limited
        for name in [name for name in counted if name not in known]:
            if near := get_close_matches(name, known, 1):
                raise TypeError(f"{name}= is written nearly as {near[0]}=, which the budget has")

    @overload
    def results(self, each: Callable[[M], Any]) -> list[M | None]: ...
    @overload
    def results(self, each: Callable[[M, Work], Any]) -> list[M | None]: ...
    @overload
    def results(self, each: Definition[M]) -> list[M | None]: ...

    def results(self, each: Any) -> list[Any]:
        """Return the data of the children that a function or workflow worked on, in their order.

        A child that has ended without success is None. Raises LookupError for what no children
        of this workflow are worked on by.
        """
        families = families_of(self._flow).values()
        family = next((one for one in families if each in (one.function, one.child)), None)
        if family is None:
            raise LookupError(f"{each!r} works on no children of {self._flow.name}")
        machine = family.child.machine
        return [
            family.child.load(child.data) if is_success(machine, child) else None
            for child in self._work.children(family.name)
        ]

    def saved(
        self,
        name: str,
        call: Callable[Given, Result],
        /,
        *arguments: Given.args,
        **options: Given.kwargs,
    ) -> Result:
        """Return what a call returns, and keep it: a later attempt gets it back without the call.

        It is kept until the record leaves the state, under this name: in a loop, give each call a
        name of its own. A result is JSON, and comes as JSON gives it back. If the worker is lost
        while the call is made, the call is made again.
        """
        self._name(name)
        result: Result = self._work.saved(name, call, *arguments, **options)
        return result

    async def saved_async(
        self,
        name: str,
        call: Callable[Given, Awaitable[Result]],
        /,
        *arguments: Given.args,
        **options: Given.kwargs,
    ) -> Result:
        """Do as `saved` does, with a call that is awaited."""
        self._name(name)
        result: Result = await self._work.saved_async(name, call, *arguments, **options)
        return result

    def once(
        self,
        name: str,
        call: Callable[Given, Result],
        /,
        *arguments: Given.args,
        **options: Given.kwargs,
    ) -> Result:
        """Call what must not be done twice, and return its result.

        From here on a failure is no reason to try again: if the call raises, or its worker is lost
        before the result is kept, a person is asked. A result that was kept is given back without a
        second call, and comes as JSON gives it back. What is no JSON is not kept.
        """
        self._name(name)
        self._refuse_unseen(name)
        if (kept := self._begun(name)) is not None:
            return cast("Result", kept.value)
        with _unclear(name):
            result = call(*arguments, **options)
        return self._kept(name, result)

    async def once_async(
        self,
        name: str,
        call: Callable[Given, Awaitable[Result]],
        /,
        *arguments: Given.args,
        **options: Given.kwargs,
    ) -> Result:
        """Do as `once` does, with a call that is awaited."""
        self._name(name)
        self._refuse_unseen(name)
        if (kept := await asyncio.to_thread(self._begun, name)) is not None:
            return cast("Result", kept.value)
        with _unclear(name):
            result = await call(*arguments, **options)
        return await asyncio.to_thread(self._kept, name, result)

    def _name(self, name: str) -> None:
        """Refuse a second call of one name: it would get the result of the first."""
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name: write one before the call, as in {SAVED}")
        if name in self._named:
            raise ValueError(
                f"two calls of this step are named {name!r}: in a loop, give each call a name of "
                f"its own, as f'{name}-{{number}}'"
            )
        self._named.add(name)

    def _refuse_unseen(self, name: str) -> None:
        """Refuse to begin something whose end could not be asked about. Raises UnseenOnceError."""
        state = self._work.record.state
        if self._work.machine.rows(state, BEGIN):
            return
        where = f"work.once({name!r}, ...) is called"
        if state in ends_of(self._flow):
            raise UnseenOnceError(f"{where} {AFTER_AN_END} ({here()})")
        raise UnseenOnceError(
            f"{where} where the import did not see it, and has not begun: call it in {state} "
            "itself, or in a function that is defined by then and that it calls by name; or hand "
            f"the method on, as in `send(order, work.once)` ({here()})"
        )

    def _begun(self, name: str) -> SavedResult | None:
        """Note that something begins, or return what came of it before."""
        begun = self._work.record.data.get(ONCE, [])
        if name in begun:
            return self._work.results.find(once_key(name)) or unclear(name)
        self._work.fire(
            Outcome(BEGIN, {"name": name, "seen": settled(self._flow.data, self._data)})
        )
        return None

    def _kept(self, name: str, result: Result) -> Result:
        """Keep a result, and return it as a later attempt gets it; what is no JSON, as it is."""
        with suppress(UnusableResultError):
            result = self._work.results.save(once_key(name), result)
        return result


def unclear(name: str) -> NoReturn:
    """Refuse what was begun, and of which nothing was kept. Raises UnclearError."""
    raise UnclearError(
        f"{name}: it was begun, and no result was kept: its worker was lost, it took too long, or"
        " it gave no JSON"
    )


def once_key(name: str) -> str:
    """Return the name under which the result of what is done once is kept."""
    return f"once.{name}"


def _refuse_event_loop(name: str) -> None:
    """Refuse a call that waits where all async steps of the worker would wait with it."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise AsyncStepError(f"this step is async: write `await work.{name}_async(...)`")


@contextmanager
def _unclear(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as failure:
        raise UnclearError(f"{name}: {blamed(failure)}") from failure

"""A workflow, as its author writes it: the declarations, from which a checked table is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast, overload

from interlock.kernel.table import PERSON, PRODUCER
from interlock.workers.engine.system import Definition
from interlock.workflow.by_hand import ByHand
from interlock.workflow.checks import check, check_call, item_model
from interlock.workflow.data import Data
from interlock.workflow.decorators import (
    ASK,
    DONE,
    FAILED,
    SKIP,
    CleanupDecorator,
    EachDecorator,
    StepDecorator,
    ending_as,
)
from interlock.workflow.durations import HOUR, SECOND
from interlock.workflow.hand_checks import check_named
from interlock.workflow.idle_checks import check_family
from interlock.workflow.model_checks import check_model
from interlock.workflow.parts import (
    Budget,
    CallPart,
    Cleanup,
    Declared,
    EachPart,
    StepPart,
)
from interlock.workflow.past_checks import Migrate, past_of
from interlock.workflow.place import here, place_of
from interlock.workflow.signature import (
    check_awaits,
    check_data,
    check_returns_nothing,
    check_sets_nothing,
    check_variable,
    message_of,
    takes_work,
    targets_of,
)
from interlock.workflow.value_checks import check_name
from interlock.workflow.waits import WaitingStates
from interlock.workflow.work import Work

D = TypeVar("D", bound=Data)
M = TypeVar("M", bound=Data)
R = TypeVar("R", bound=str | Awaitable[str])
F = TypeVar("F", bound=Callable[..., Any])


class Workflow(WaitingStates[D], ByHand[D]):
    """The definition of one kind of record: its data, its states, and what is done in each.

    `name` is what commands, pages and the API call it; `start` is the state that it begins in, by
    default the one that no other leads to; after `expires`, counted from its creation, it ends as
    `expired`, but never while a step is at work; `title` is a line that names a record in lists,
    with fields of the data in braces; `zone` is the time zone of times without an offset; `budget`
    is what a record and its children may use.

    Records that an older version of this definition has left go on: `renamed` has the new name of
    a state by its old one, `retired` names states that nothing enters any more, and `migrate` makes
    the data of an older `schema` (1, 2, ...) those of the next. It is a function from the older
    data (a dict, or a model that it names) to the newer, or such functions by the older schema.

    `ends` closes the definition and checks it. What is wrong raises WorkflowError.
    """

    def __init__(
        self,
        name: str,
        data: type[D],
        *,
        start: str = "",
        expires: timedelta | None = None,
        title: str = "",
        zone: str = "UTC",
        budget: Budget | None = None,
        renamed: Mapping[str, str] | None = None,
        retired: Sequence[str] = (),
        schema: int = 1,
        migrate: Migrate[D] | None = None,
    ) -> None:
        place = here()
        check_name(place, "workflow", name)
        check_model(place, data, name.title().replace("_", ""))
        past = past_of(place, data, renamed, retired, schema, migrate)
        super().__init__(
            data,
            Declared(
                name=name,
                data=data,
                place=place,
                start=start,
                expires=expires,
                title=title,
                zone=zone,
                budget=budget,
                past=past,
            ),
        )

    @overload
    def step(self, function: Callable[[D], R], /) -> Callable[[D], R]: ...
    @overload
    def step(self, function: Callable[[D, Work], R], /) -> Callable[[D, Work], R]: ...
    @overload
    def step(
        self,
        *,
        name: str = "",
        once: bool = False,
        timeout: timedelta = ...,
        max_attempts: int = 3,
        retry_delay: timedelta = SECOND,
        on_failure: str = "",
        pool: str = "",
        queue: str = "",
        concurrency: int | None = None,
        key: Callable[[D], str] | None = None,
    ) -> StepDecorator[D]: ...

    def step(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str = "",
        once: bool = False,
        timeout: timedelta = HOUR,
        max_attempts: int = 3,
        retry_delay: timedelta = SECOND,
        on_failure: str = "",
        pool: str = "",
        queue: str = "",
        concurrency: int | None = None,
        key: Callable[[D], str] | None = None,
    ) -> Any:
        """Make a function the step of a state; it returns the state that follows.

        The state has the function's name, or `name`. With `once` it is never called again by
        itself after it has begun: if it fails, or its worker is lost, a person is asked. If it
        raises, or takes longer than `timeout`, it is tried `max_attempts` times, the second time
        after `retry_delay`; then a card asks a person, or the state `on_failure` follows. A `pool`
        of its own keeps a step that waits long for something outside from holding up others. The
        steps of a workflow share a queue of its name, unless `queue` names another. At most
        `concurrency` records are in the step at one time, for each text that `key` gives.
        """

        def add(function: F) -> F:
            place = place_of(function)
            targets, takes = targets_of(function), takes_work(function)
            check_data(function, self.data, f"the data of {self.name}", Work)
            check_variable(function, self)
            check_awaits(function)
            self._add(
                StepPart(
                    name=name or function.__name__,
                    place=place,
                    function=function,
                    targets=targets,
                    takes_work=takes,
                    once=once,
                    timeout=timeout,
                    max_attempts=max_attempts,
                    retry_delay=retry_delay,
                    on_failure=on_failure,
                    pool=pool,
                    queue=queue,
                    concurrency=concurrency,
                    key=key,
                )
            )
            return function

        return add if function is None else add(function)

    @overload
    def each(
        self,
        field: str,
        /,
        *,
        then: str,
        on_failure: str = "ask",
        name: str = "",
        title: str = "",
        once: bool = False,
        timeout: timedelta = ...,
        max_attempts: int = 3,
        retry_delay: timedelta = SECOND,
        pool: str = "",
        queue: str = "",
        concurrency: int | None = None,
        key: Callable[[Any], str] | None = None,
    ) -> EachDecorator: ...
    @overload
    def each(
        self,
        field: str,
        /,
        *,
        then: str,
        on_failure: str = "ask",
        name: str,
        workflow: Definition[Any],
    ) -> None: ...

    def each(
        self,
        field: str,
        *,
        then: str,
        on_failure: str = ASK,
        name: str = "",
        workflow: Definition[Any] | None = None,
        title: str = "",
        once: bool = False,
        timeout: timedelta = HOUR,
        max_attempts: int = 3,
        retry_delay: timedelta = SECOND,
        pool: str = "",
        queue: str = "",
        concurrency: int | None = None,
        key: Callable[[Any], str] | None = None,
    ) -> Any:
        """Work on each item of a list at the same time; `then` follows when all have ended.

        A child record is created for each item of the list `field`, as the list is at that moment.
        The function that is decorated works on it, or another `workflow`. Where a function fails
        for good, `on_failure` says what follows: "ask" a person about that child, which the others
        wait for, or "skip" it; any other word is the state that follows at once, and the others are
        cancelled. A step reads what came of them by `Work.results`. `title` is a line that names a
        child in lists, with fields of its item in braces.
        """
        options: dict[str, Any] = {
            "title": title,
            "once": once,
            "timeout": timeout,
            "max_attempts": max_attempts,
            "retry_delay": retry_delay,
            "pool": pool,
            "queue": queue,
            "concurrency": concurrency,
            "key": key,
        }
        if workflow:
            check_family(here(), name, workflow, options)

        def add(function: F | None) -> F | None:
            own = name or getattr(function, "__name__", "")
            child = workflow
            if function is not None:
                child = self._child(function, own, field, on_failure=on_failure, **options)
            assert child
            self._add(
                EachPart(
                    name=own,
                    place=place_of(function) if function else here(),
                    function=function,
                    field=field,
                    child=child,
                    then=then,
                    early="" if on_failure in (ASK, SKIP) else on_failure,
                )
            )
            return function

        return add(None) if workflow else add

    def _child(
        self,
        function: Callable[..., Any],
        name: str,
        field: str,
        *,
        on_failure: str,
        title: str,
        **options: Any,
    ) -> Workflow[Any]:
        """Return the workflow of one item: one step, which ends as done or failed."""
        place = place_of(function)
        takes = takes_work(function)
        item = item_model(place, self.data, field)
        check_data(function, item, f"the items of {field}", Work)
        check_returns_nothing(function, "works on an item", ", and set a field")
        check_awaits(function)
        child: Workflow[Any] = Workflow(f"{self.name}_{name}", item, start=name, title=title)
        child.declared.above = self.declared
        child._add(
            StepPart(
                name=name,
                place=place,
                function=ending_as(DONE, function),
                targets=(DONE,),
                takes_work=takes,
                on_failure="" if on_failure == ASK else FAILED,
                **options,
            )
        )
        child.ends(**({DONE: True} if on_failure == ASK else {DONE: True, FAILED: False}))
        return child

    def on(
        self, name: str, /, *, by: tuple[str, ...] = (PERSON, PRODUCER)
    ) -> Callable[[Callable[[D, M], None]], Callable[[D, M], None]]:
        """Let a function take a call from outside, such as `Client.fire(id, name, {...})`.

        It changes the data and nothing else, quickly, in the process that calls. It is taken in
        every state in which the record lives, and may raise Refuse with a sentence.
        """
        check_name(here(), "call", name)

        def add(function: Callable[[D, M], None]) -> Callable[[D, M], None]:
            place, message = place_of(function), message_of(function)
            call = CallPart(name=name, place=place, function=function, message=message, by=by)
            check_call(place, call)
            check_model(place, message, name.title().replace("_", ""))
            check_data(function, self.data, f"the data of {self.name}")
            check_returns_nothing(function, "takes a call", ", and change the data")
            self.declared.refuse_twin(place, name, "call", self.declared.calls.get(name))
            self.declared.calls[name] = call
            return function

        return add

    def at_end(self, end: str, /) -> CleanupDecorator[D]:
        """Let a function clean up after records that end as `end`. It changes no data."""
        check_name(here(), "state", end)

        def add(function: Any) -> Any:
            place, takes = place_of(function), takes_work(function)
            check_data(function, self.data, f"the data of {self.name}", Work)
            check_returns_nothing(function, "cleans up")
            check_sets_nothing(function)
            name = f"a cleanup after {end}"
            self.declared.refuse_twin(place, name, "", self.declared.cleanups.get(end))
            self.declared.cleanups[end] = Cleanup(
                end=end,
                place=place,
                function=function,
                takes_work=takes,
            )
            return function

        return cast("CleanupDecorator[D]", add)

    def ends(self, **ends: bool) -> None:
        """Close the definition: name its ends, each with whether it is a success, and check it.

        Every workflow also ends as `cancelled`, and as `expired` where a time leads there.
        """
        if closed := self.declared.ended_at:
            raise here().error(f"{self.name} has its ends already ({closed}): say them once")
        self.declared.close_at(here(), ends)
        check(self.declared)
        for part in self.declared.named:
            check_named(self.declared, part, self.machine.transitions)

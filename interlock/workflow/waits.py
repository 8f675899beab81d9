"""The states in which a record waits: for a person, a call, a time, or another record's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from interlock.workflow.data import Data
from interlock.workflow.defined import Defined
from interlock.workflow.durations import DAY
from interlock.workflow.parts import Choice, QuestionPart, State, WaitPart, named_choices
from interlock.workflow.place import here
from interlock.workflow.value_checks import check_name

D = TypeVar("D", bound=Data)


class WaitingStates(Defined[D]):
    """A workflow with the states that wait."""

    def ask(
        self,
        name: str,
        question: str,
        /,
        *,
        offered: Mapping[str, Callable[[D], bool]] | None = None,
        timeout: timedelta | None = None,
        on_timeout: str = "",
        remind: timedelta = DAY,
        **choices: Choice,
    ) -> None:
        """Ask a person in the state `name`. The fields in braces of `question` are the data's.

        A choice names the state that follows, or that state and the model of the answer, whose
        fields become the data's. `offered` says by choice when it is offered. After `timeout`
        without an answer the record goes to `on_timeout`; it is reminded of after each `remind`.
        """
        place = here()
        self._add(
            QuestionPart(
                name=name,
                place=place,
                text=question,
                choices=named_choices(place, choices),
                offered={} if offered is None else offered,
                timeout=timeout,
                on_timeout=on_timeout,
                remind=remind,
            )
        )

    def wait(
        self,
        name: str,
        /,
        *,
        until: Callable[[D], datetime] | None = None,
        record: Callable[[D], str] | None = None,
        then: str = "",
        on_failure: str = "",
        timeout: timedelta | None = None,
        on_timeout: str = "",
        **calls: Choice,
    ) -> None:
        """Wait in the state `name` for `calls`, a time of the data, or another record's end.

        A call, such as `Client.fire(id, "delivered")`, names the state that follows, or that state
        and the model of what it brings. At the time that `until` returns the record goes to `then`.
        `record` returns the id of another record, of any workflow: when that ends, `then` follows
        if its end is a success, else `on_failure`. After `timeout` the record goes to `on_timeout`.
        """
        place = here()
        self._add(
            WaitPart(
                name=name,
                place=place,
                calls=named_choices(place, calls),
                until=until,
                record=record,
                then=then,
                on_failure=on_failure,
                timeout=timeout,
                on_timeout=on_timeout,
            )
        )

    def _add(self, state: State) -> None:
        check_name(state.place, "state", state.name)
        self.declared.refuse_twin(
            state.place, state.name, "state", self.declared.states.get(state.name)
        )
        self.declared.states[state.name] = state

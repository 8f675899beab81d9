"""Asks the judge model about the work of a task, and books what that costs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.llm.outcome import Unanswered, UnknownPriceError
from interlock.workers.tasks.verification.judge_model import (
    Inquiry,
    InquiryKind,
    JudgeModel,
    open_judge,
)
from interlock.workers.tasks.verification.model_verdict import AskModel, UnansweredError
from interlock.workers.text import dollars

if TYPE_CHECKING:  # it comes from the model, where there is one
    from interlock.workers.gateways.llm.cost import Ledger


class ModelInquiries:
    """The inquiries of one effect about some work. If the block raises, their cost is booked.

    Before each call its cost is reserved, together with the cost of the calls before: an effect
    has one reservation, which its outcome replaces by the cost. So the outcome must carry `deltas`.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._model = work.resources.get(open_judge)
        self._costs: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self.deltas:
            await asyncio.to_thread(self.work.note_late, Outcome("judged", deltas=self.deltas))

    @property
    def available(self) -> bool:
        """Whether the deployment has a judge model."""
        return self._model is not None

    def question(self, kind: InquiryKind, *, task: str, changes: str) -> AskModel | None:
        """Return a function that asks the model about some work, or None if there is no model."""
        if (model := self._model) is None:
            return None

        async def ask(instruction: str) -> object:
            return await self._answer(model, Inquiry(kind, instruction, task, changes))

        return ask

    @property
    def deltas(self) -> Mapping[str, int]:
        """The cost so far, for an outcome to carry."""
        return {name: amount for name, amount in self._costs.items() if amount}

    async def _answer(self, model: JudgeModel, inquiry: Inquiry) -> object:
        ledger = model.ledger(inquiry)
        try:
            estimate = await self.work.estimate_micro(ledger.bound.micro)
        except UnknownPriceError as unknown:
            raise UnansweredError(str(unknown)) from unknown
        if estimate and not await asyncio.to_thread(self._reserve, estimate):
            raise UnansweredError(
                f"asking {model.name} may cost {dollars(estimate)}, more than the budget has left"
            )
        timeout_s = self.work.dispatch.settings.judge_s
        try:
            answer = await model.answer(inquiry, ledger, timeout_s=timeout_s)
        finally:
            self._book(ledger)
        if isinstance(answer, Unanswered):
            raise UnansweredError(answer.detail)
        return answer

    def _reserve(self, estimate: int) -> bool:
        spent = self._costs["spent"]
        if self.work.reserve(spent + estimate):
            return True
        # A refused reservation replaced the earlier one: reserve what the calls before it cost.
        self.work.reserve(spent)
        return False

    def _book(self, ledger: Ledger) -> None:
        used = ledger.usage
        tokens = {"tokens_in": used.input_tokens, "tokens_out": used.output_tokens}
        self._costs.update({"spent": ledger.cost_micro, **tokens})

"""Asks the judge model about the work of a task, and counts what that costs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from interlock import EffectWork, OverBudgetError
from interlock.system.models import Unanswered, UnknownPriceError
from interlock.system.tables import dollars
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.verification.judge_model import (
    Inquiry,
    InquiryKind,
    JudgeModel,
    open_judge,
)
from interlock.systems.tasks.verification.model_verdict import AskModel, UnansweredError

if TYPE_CHECKING:  # it comes from the model, where there is one
    from interlock.system.exchanges import Ledger


class ModelInquiries:
    """The inquiries of one effect about some work.

    The cost of each is reserved before it, and counted after it however it ends.
    """

    def __init__(self, work: EffectWork[TaskData]) -> None:
        self.work = work
        self._model = work.resources.get(open_judge)

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

    async def _answer(self, model: JudgeModel, inquiry: Inquiry) -> object:
        ledger = model.ledger(inquiry)
        try:
            estimate = await self.work.estimate_micro(ledger.bound.micro)
        except UnknownPriceError as unknown:
            raise UnansweredError(str(unknown)) from unknown
        try:
            if estimate:
                await asyncio.to_thread(partial(self.work.reserve, spent=estimate))
        except OverBudgetError as refused:
            raise UnansweredError(
                f"asking {model.name} may cost {dollars(estimate)}, more than the budget has left"
            ) from refused
        timeout_s = self.work.records.settings.of(TaskSettings).judge_s
        try:
            answer = await model.answer(inquiry, ledger, timeout_s=timeout_s)
        finally:
            await asyncio.to_thread(self._count, ledger)
        if isinstance(answer, Unanswered):
            raise UnansweredError(answer.detail)
        return answer

    def _count(self, ledger: Ledger) -> None:
        used = ledger.usage
        tokens = {"tokens_in": used.input_tokens, "tokens_out": used.output_tokens}
        self.work.spend(spent=ledger.cost_micro, **tokens)

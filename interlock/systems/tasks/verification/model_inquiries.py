"""Asks the judge model about the work of a task, and counts what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from interlock import EffectWork, OverBudgetError
from interlock.system.models import LanguageModel, Unanswered
from interlock.system.settings import SettingsError
from interlock.system.tables import dollars
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.verification.judge_model import (
    InquiryKind,
    open_judge,
    question_of,
)
from interlock.systems.tasks.verification.model_verdict import AskModel, UnansweredError


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

        async def ask(criterion: str) -> object:
            shown = {"criterion": criterion, "task": task, "changes": changes}
            return await self._answer(model, kind, shown)

        return ask

    async def _answer(
        self, model: LanguageModel, kind: InquiryKind, shown: Mapping[str, str]
    ) -> object:
        question = question_of(model, kind, **shown)
        try:
            timeout_s = self.work.records.settings.of(TaskSettings).judge_s
            found = await self.work.ask(question, timeout_s=timeout_s)
        except SettingsError as unknown:
            raise UnansweredError(str(unknown)) from unknown
        except OverBudgetError as refused:
            most = dollars(question.bound_micro())
            raise UnansweredError(
                f"asking {model.name} may cost {most}, more than the budget has left"
            ) from refused
        await asyncio.to_thread(partial(self.work.spend, **found.deltas))
        if isinstance(found, Unanswered):
            raise UnansweredError(found.detail)
        return found.answer

"""The outside world of a process, opened when first needed: model, capabilities, sources, cards.

What opens it is imported then as well: a keeper is started for every agent and opens none of it,
and to load it all would double the processor time of its start.
"""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING

from interlock.workers.config import Settings

if TYPE_CHECKING:
    from interlock.workers.gateways.capabilities.registry import Registry
    from interlock.workers.gateways.cards import Surfaces
    from interlock.workers.gateways.llm.job import JobModel
    from interlock.workers.gateways.llm.judge import JudgeModel
    from interlock.workers.gateways.llm.model import Model
    from interlock.workers.gateways.sources import Sources


class Resources:
    """What handlers may reach. Opening is safe from many threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = RLock()

    def check(self) -> None:
        """Open everything now, so that a wrong setting ends the start and not the first effect."""
        assert all((self.model, self.registry, self.sources, self.surfaces)), "all is open"
        for model in (self.judge, self.job_model):
            assert model is None or model.name, "where it can be, this is open too"

    @cached_property
    def model(self) -> Model:
        """The model that infers."""
        from interlock.workers.gateways.llm.model import open_model  # noqa: PLC0415 - see above

        with self._lock:
            return open_model(
                self.settings.model,
                base_url=self.settings.model_base_url,
                api_key=self.settings.model_api_key,
                attempts_max=self.settings.model_attempts_max,
                tier_models=self.settings.tier_models,
            )

    @cached_property
    def judge(self) -> JudgeModel | None:
        """The model that judges finished work; None where only the embedded one is there."""
        from interlock.workers.gateways.llm.judge import open_judge  # noqa: PLC0415 - see above

        with self._lock:
            return open_judge(
                self.settings.judge_model or self.settings.model,
                base_url=self.settings.model_base_url,
                api_key=self.settings.model_api_key,
                attempts_max=self.settings.model_attempts_max,
            )

    @cached_property
    def job_model(self) -> JobModel | None:
        """The model that works on jobs; None where only the embedded one is there."""
        from interlock.workers.gateways.llm.job import open_job_model  # noqa: PLC0415 - see above

        with self._lock:
            return open_job_model(
                self.settings.model,
                base_url=self.settings.model_base_url,
                api_key=self.settings.model_api_key,
                attempts_max=self.settings.model_attempts_max,
            )

    @cached_property
    def registry(self) -> Registry:
        """The capabilities that a thread may execute."""
        from interlock.workers.gateways.capabilities.registry import load_registry  # noqa: PLC0415 - see above

        with self._lock:
            return load_registry(self.settings.capabilities)

    @cached_property
    def sources(self) -> Sources:
        """Where inciting events come from."""
        from interlock.workers.gateways.sources import load_sources  # noqa: PLC0415 - see above

        with self._lock:
            return load_sources(self.settings.capabilities, root=self.settings.sources_root)

    @cached_property
    def surfaces(self) -> Surfaces:
        """Where people see their cards, besides the console."""
        from interlock.workers.gateways.cards import open_surfaces  # noqa: PLC0415 - see above

        with self._lock:
            return open_surfaces(self.settings.cards, self.settings.cards_webhook)

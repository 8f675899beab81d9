"""The outside world of a process, opened when first needed: model, capabilities, sources, cards."""

from __future__ import annotations

from functools import cached_property
from threading import RLock

from workers.config import Settings
from workers.gateways.capabilities import Registry, load_registry
from workers.gateways.cards import Surfaces, open_surfaces
from workers.gateways.llm.judge import JudgeModel, open_judge
from workers.gateways.llm.model import Model, open_model
from workers.gateways.sources import Sources, load_sources


class Equipment:
    """What handlers may reach. Opening is safe from many threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = RLock()

    def check(self) -> None:
        """Open everything now, so that a wrong setting ends the start and not the first effect."""
        assert all((self.model, self.registry, self.sources, self.surfaces)), "all is open"
        assert self.judge is None or self.judge.name, "where it can be, this is open too"

    @cached_property
    def model(self) -> Model:
        """The model that infers."""
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
        with self._lock:
            return open_judge(
                self.settings.judge_model or self.settings.model,
                base_url=self.settings.model_base_url,
                api_key=self.settings.model_api_key,
                attempts_max=self.settings.model_attempts_max,
            )

    @cached_property
    def registry(self) -> Registry:
        """The capabilities that a thread may execute."""
        with self._lock:
            return load_registry(self.settings.capabilities)

    @cached_property
    def sources(self) -> Sources:
        """Where inciting events come from."""
        with self._lock:
            return load_sources(self.settings.capabilities, root=self.settings.sources_root)

    @cached_property
    def surfaces(self) -> Surfaces:
        """Where people see their cards, besides the console."""
        with self._lock:
            return open_surfaces(self.settings.cards, self.settings.cards_webhook)

"""Questions to language models, with their price: what needs the packages of models."""

from __future__ import annotations

from interlock.extras import needed
from interlock.workers.config import SettingsError

try:
    from interlock.workers.gateways.llm.cost import Bound, Ledger
    from interlock.workers.gateways.llm.exchange import Exchange, PricedQuestion
    from interlock.workers.gateways.llm.model import exchange_of, open_exchange
except ModuleNotFoundError as missing:
    raise SettingsError(needed("A language model", missing)) from missing

__all__ = [
    "Bound",
    "Exchange",
    "Ledger",
    "PricedQuestion",
    "exchange_of",
    "open_exchange",
]

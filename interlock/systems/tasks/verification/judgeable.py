"""Refuses signals for a judge model that no computer has, before an agent works for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.system.errors import InvalidPayloadError
from interlock.system.records import Records
from interlock.systems.tasks.verification.signals import (
    MODEL_SIGNALS,
    InvalidSignalError,
    parse_signals,
)

# The fact that a computer with agents announces: whether it has a judge model.
JUDGE = "judge"


def check_signals(records: Records, signals: Sequence[Mapping[str, Any]]) -> None:
    """Refuse invalid signals, and those for a judge model that no computer has.

    Raises InvalidSignalError.
    """
    parse_signals(signals)
    refuse_unjudgeable(records, signals)


def check_parts(records: Records, parts: object) -> None:
    """Check the signals of the parts of a split. Raises InvalidPayloadError.

    A value that is no list of objects is not checked here, because the split refuses it.
    """
    for number, part in enumerate(parts if isinstance(parts, list) else (), start=1):
        if not (isinstance(part, Mapping) and isinstance(part.get("signals"), list)):
            continue
        try:
            check_signals(records, part["signals"])
        except InvalidSignalError as refusal:
            raise InvalidPayloadError("split", [f"part {number}, {refusal}"]) from refusal


def refuse_unjudgeable(
    records: Records, signals: Sequence[Mapping[str, Any]], *, host: str | None = None
) -> None:
    """Refuse a signal for a judge model if no computer with agents has one, or `host` has none.

    Only computers that have announced themselves count: where none has yet, nothing is refused.
    Raises InvalidSignalError.
    """
    asked = [index for index, signal in enumerate(signals) if signal["type"] in MODEL_SIGNALS]
    if not asked:
        return
    computers = records.computers()
    chosen = [facts for name, facts in computers.items() if host in (None, name)]
    if chosen and not any(facts.get(JUDGE) for facts in chosen):
        signal = signals[asked[0]]
        where = host or f"the computers with agents ({', '.join(sorted(computers))})"
        problem = (
            f"{signal['type']} cannot be judged: set INTERLOCK_JUDGE_MODEL to a language model on"
            f" {where}, or leave the signal out; the embedded model cannot judge"
        )
        raise InvalidSignalError(asked[0], signal["value"], problem)

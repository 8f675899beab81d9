"""Refuses the signals that no model of the deployment can judge, before an agent works for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.tasks.verification.signals import MODEL_SIGNALS, InvalidSignalError

# The fact that a machine with agents announces: whether it has a model that can judge.
JUDGE = "judge"


def refuse_unjudgeable(
    dispatch: Dispatch, signals: Sequence[Mapping[str, Any]], *, host: str | None = None
) -> None:
    """Refuse a signal for a model if no machine with agents has one, or if `host` has none.

    Only machines that have announced themselves count: where none has yet, nothing is refused.
    Raises InvalidSignalError.
    """
    asked = [index for index, signal in enumerate(signals) if signal["type"] in MODEL_SIGNALS]
    if not asked:
        return
    machines = dispatch.hosts.facts()
    chosen = [facts for name, facts in machines.items() if host in (None, name)]
    if chosen and not any(facts.get(JUDGE) for facts in chosen):
        signal = signals[asked[0]]
        where = host or f"the machines with agents ({', '.join(sorted(machines))})"
        problem = (
            f"{signal['type']} cannot be judged: set INTERLOCK_JUDGE_MODEL to a language model on"
            f" {where}, or leave the signal out; the embedded model cannot judge"
        )
        raise InvalidSignalError(asked[0], signal["value"], problem)

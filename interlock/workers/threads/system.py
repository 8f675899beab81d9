"""The entry of threads in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

CLI = "interlock.workers.threads.cli"

SYSTEM = System(
    name="threads",
    effects="interlock.workers.threads.effects",
    sweeps="interlock.workers.threads.sweeps",
    resources=(
        "interlock.workers.threads.inference.model:open_model",
        "interlock.workers.gateways.capabilities.registry:open_registry",
        "interlock.workers.gateways.sources:open_sources",
    ),
    commands=(
        CommandRow("submit", f"{CLI}:submit", Panel.START, "Submit requests."),
        CommandRow("cards", f"{CLI}:cards", Panel.DECIDE, "List the questions that wait."),
        CommandRow("decide", f"{CLI}:decide", Panel.DECIDE, "Answer a card."),
        CommandRow("cleanup", f"{CLI}:cleanup", Panel.DECIDE, "End a thread, and its request."),
        CommandRow("handoff", f"{CLI}:handoff", Panel.DECIDE, "Hand a thread to somebody."),
    ),
    submit={"thread": "interlock.workers.threads.intake:accept"},
    evidence={"thread": "interlock.workers.threads.card_evidence:evidence"},
    counted=("thread",),
    shown=("result", "summary", "failure", "handed_off", "reason"),
    page="interlock.workers.threads.page:PAGE",
)

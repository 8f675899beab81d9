"""The entry of threads in the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import Command, Panel, System

CLI = "interlock.workers.threads.cli"

SYSTEM = System(
    name="threads",
    effects="interlock.workers.threads.effects",
    resources=(
        "interlock.workers.threads.inference.model:open_model",
        "interlock.workers.gateways.capabilities.registry:open_registry",
        "interlock.workers.gateways.sources:open_sources",
    ),
    commands=(
        Command("submit", f"{CLI}:submit", Panel.START, "Submit requests."),
        Command("cards", f"{CLI}:cards", Panel.DECIDE, "List the questions that wait."),
        Command("decide", f"{CLI}:decide", Panel.DECIDE, "Answer a card."),
        Command("cleanup", f"{CLI}:cleanup", Panel.DECIDE, "End a thread and remove its request."),
        Command("handoff", f"{CLI}:handoff", Panel.DECIDE, "Hand a thread to a person or system."),
    ),
    counted=("thread",),
    shown=("result", "summary", "failure", "handed_off", "reason"),
)

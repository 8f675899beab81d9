"""The entry of threads in the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

CLI = "interlock.systems.threads.cli"
MACHINES = ("thread", "canary")

SYSTEM = System(
    name="threads",
    settings="interlock.systems.threads.settings:ThreadSettings",
    machines={
        name: f"interlock.systems.threads.machines.{name}.table:{name.upper()}" for name in MACHINES
    },
    unlisted=("canary",),  # Interlock submits them itself, to see that work gets through
    effects="interlock.systems.threads.effects",
    sweeps="interlock.systems.threads.sweeps",
    resources=("interlock.systems.threads.inference.model:open_model",),
    commands=(
        CommandRow("submit", f"{CLI}:submit", Panel.START, "Submit requests."),
        CommandRow("cleanup", f"{CLI}:cleanup", Panel.DECIDE, "End a thread, and its request."),
        CommandRow("handoff", f"{CLI}:handoff", Panel.DECIDE, "Hand a thread to somebody."),
    ),
    submit={"thread": "interlock.systems.threads.intake:accept"},
    evidence={"thread": "interlock.systems.threads.card_evidence:evidence"},
    asked={"thread": ("inciting.text",)},
    came={"thread": ("result", "summary", "failure", "handed_off", "reason")},
    counted=("thread",),
    shown=("result", "summary", "failure", "handed_off", "reason"),
    words=dict.fromkeys(MACHINES, "interlock.systems.threads.described:in_words"),
    plain={
        "machine": "thread",
        "says": "A thread is a request in words. Interlock finds out what is wanted, and asks you"
        " before it acts.",
        "example": "Call the dentist",
        "command": "submit --title 'Call the dentist'",
        "payload": "interlock.systems.threads.intake:plain_payload",
    },
    page="interlock.systems.threads.page:PAGE",
    health="interlock.systems.threads.canary:health",
)

"""What coding tasks add to the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import System

SYSTEM = System(
    name="tasks",
    effects="interlock.workers.tasks.effects",
    sweeps="interlock.workers.tasks.sweeps",
    resources=("interlock.workers.tasks.verification.judge_model:open_judge",),
    facts={"judge": "interlock.workers.tasks.verification.judge_model:open_judge"},
    commands={
        "plan": "interlock.workers.tasks.plans.cli",
        "task": "interlock.workers.tasks.cli",
        "agent": "interlock.workers.tasks.agents_cli",
    },
    submit={"task": "interlock.workers.tasks.intake:accept"},
    shown=("blocked_on", "end", "role", "command", "identity", "successes", "violations"),
)

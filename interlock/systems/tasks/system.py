"""What coding tasks add to the registry of systems."""

from __future__ import annotations

from interlock import CommandRow, Panel, System

TASKS = "interlock.systems.tasks"
OPEN_JUDGE = f"{TASKS}.verification.judge_model:open_judge"
OPEN_SANDBOX = "interlock.system.agents:Sandbox.open"
TASK_HELP = "Coding tasks: agents work on them in git worktrees."
CLAIM_HELP = "External agents (those that you run yourself) claim them."
PLAN_HELP = "Plans: tasks that wait until you approve them."
AGENT_HELP = "Agents that work on tasks, and their trust."

BY_HAND = {
    "task.retried": "task retry {id}",
    "task.requeued": "task requeue {id}",
    "task.unblocked": "task unblock {id}",
    "task.cancelled": "task cancel {id}",
    "task.claimed": "task claim {id} --owner NAME",
    "task.stage_failed": "task fail-stage {root}",
    "identity.promoted": "agent promote {id}",
    "identity.retired": "agent retire {id}",
}

SYSTEM = System(
    name="tasks",
    settings="interlock.systems.tasks.settings:TaskSettings",
    machines={
        name: f"interlock.systems.tasks.machines.{name}.table:{name.upper()}"
        for name in ("task", "agent", "turn", "identity")
    },
    effects="interlock.systems.tasks.effects",
    sweeps="interlock.systems.tasks.sweeps",
    resources=(OPEN_JUDGE, OPEN_SANDBOX, f"{TASKS}.identities:check_files_by_trust"),
    facts={"judge": OPEN_JUDGE, "sandbox": OPEN_SANDBOX},
    commands=(
        CommandRow("task", f"{TASKS}.cli:app", Panel.WORK, TASK_HELP),
        CommandRow("task", f"{TASKS}.claims_cli:app", Panel.WORK, CLAIM_HELP),
        CommandRow("plan", f"{TASKS}.plans.cli:app", Panel.WORK, PLAN_HELP),
        CommandRow("agent", f"{TASKS}.agents_cli:app", Panel.WORK, AGENT_HELP),
    ),
    submit={"task": "interlock.systems.tasks.intake:accept"},
    messages={"report": f"{TASKS}.claim_reports:report"},
    messages_about={"report": "task"},
    details={"task": f"{TASKS}.details:details"},
    evidence={"task": f"{TASKS}.card_evidence:evidence"},
    outputs={"task": f"{TASKS}.output_place:output_place"},
    diffs={"task": f"{TASKS}.task_diff:SOURCE"},
    starved=f"{TASKS}.starved:count_starved",
    asked={"task": ("description",)},
    came={"task": ("summary", "failure", "reason")},
    shown=("task", "blocked_on", "end", "role", "command", "identity", "successes", "violations"),
    by_hand="interlock.systems.tasks.system:BY_HAND",
    page="interlock.systems.tasks.page:PAGE",
    top=f"{TASKS}.top:PART",
    tools=f"{TASKS}.agent_tools",
    folders=("supervisors", "slots"),
)

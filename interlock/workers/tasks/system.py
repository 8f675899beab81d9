"""What coding tasks add to the registry of systems."""

from __future__ import annotations

from interlock.workers.engine.system import CommandRow, Panel, System

TASKS = "interlock.workers.tasks"
OPEN_JUDGE = f"{TASKS}.verification.judge_model:open_judge"
OPEN_SANDBOX = "interlock.workers.engine.work_sandbox:open_sandbox"
TASK_HELP = "Coding tasks: agents work on them in git worktrees."
CLAIM_HELP = "External agents (those that you run yourself) claim them."
PLAN_HELP = "Plans: tasks that wait until you approve them."
AGENT_HELP = "Agents that work on tasks, and their trust."

SYSTEM = System(
    name="tasks",
    effects="interlock.workers.tasks.effects",
    sweeps="interlock.workers.tasks.sweeps",
    resources=(OPEN_JUDGE, OPEN_SANDBOX),
    facts={"judge": OPEN_JUDGE, "sandbox": OPEN_SANDBOX},
    commands=(
        CommandRow("task", f"{TASKS}.cli:app", Panel.WORK, TASK_HELP),
        CommandRow("task", f"{TASKS}.claims_cli:app", Panel.WORK, CLAIM_HELP),
        CommandRow("plan", f"{TASKS}.plans.cli:app", Panel.WORK, PLAN_HELP),
        CommandRow("agent", f"{TASKS}.agents_cli:app", Panel.WORK, AGENT_HELP),
    ),
    submit={"task": "interlock.workers.tasks.intake:accept"},
    messages={"report": f"{TASKS}.claim_reports:report"},
    messages_about={"report": "task"},
    details={"task": f"{TASKS}.details:details"},
    evidence={"task": f"{TASKS}.card_evidence:evidence"},
    outputs={"task": f"{TASKS}.output_source:output_source"},
    diffs={"task": f"{TASKS}.task_diff:SOURCE"},
    starved=f"{TASKS}.starved:count_starved",
    shown=("blocked_on", "end", "role", "command", "identity", "successes", "violations"),
    page="interlock.workers.tasks.page:PAGE",
)

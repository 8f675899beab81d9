"""The public names of Interlock; each is imported from its own module when it is first used.

Type checkers read the names in `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module

# Not imported at once: an agent's watchdog imports from this package with the standard library
# alone, and has to be up in a few hundredths of a second.
_MODULES = {
    "kernel.amounts": ("amounts",),
    "kernel.effect": ("AWAITING", "CASCADE", "NOTIFICATION", "RESOLUTION", "SPAWN", "Effect"),
    "kernel.errors": ("CallError", "ConflictError", "EndedError", "KernelError", "StoreError"),
    "kernel.machine": ("Machine",),
    "kernel.payload": ("CardAnswer", "ChildLost", "RecordEnd", "Shape", "Tally", "validated"),
    "kernel.scales": ("Level",),
    "kernel.table": (
        "ORPHANS",
        "PERSON",
        "PRODUCER",
        "STALLS",
        "Active",
        "Ask",
        "AwaitedEnd",
        "Terminal",
        "Waiting",
        "always",
        "by",
        "move",
        "never",
        "reenter",
        "rows",
        "stay",
    ),
    "kernel.timer": ("Timer",),
    "kernel.tags": ("Tags",),
    "kernel.traits": ("Bookkeeping", "Children"),
    "kernel.event": ("Event", "Note"),
    "workers.client": ("Client",),
    "workers.config": ("Settings", "read_settings"),
    "workers.engine.event_feed": ("FollowedEvent",),
    "workers.engine.polling": ("WaitTimeoutError",),
    "workers.engine.system": ("CommandRow", "Panel", "System"),
    "workers.engine.work": ("EffectWork", "Outcome", "OverBudgetError"),
    "workers.gateways.capabilities.capability": ("CapabilityError", "Steps", "capability"),
    "workers.gateways.capabilities.result": ("Failed", "Succeeded"),
    "systems.jobs.client": ("Graphs",),
    "systems.jobs.status": ("GraphView",),
    "systems.loops.client": ("Loops",),
    "workers.remote.client": ("HttpClient",),
    "systems.runs.client": ("Runs",),
    "systems.tasks.client": ("Tasks",),
    "workers.terminal.answer": ("guarded",),
    "workers.engine.submission": ("Submitted",),
    "systems.threads.client": ("Threads",),
    "workflow.changing": ("Refuse",),
    "workflow.data": ("Because", "Data", "Inbox", "Log", "Sum"),
    "workflow.durations": ("days", "hours", "minutes", "seconds"),
    "workflow.parts": ("Budget",),
    "workflow.place": ("WorkflowError",),
    "workflow.secret": ("Secret",),
    "workflow.work": ("Work",),
    "workflow.workflow": ("Workflow",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list, made from the table above


def __getattr__(name: str) -> object:
    """Return a public name. Raises AttributeError for any other."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

"""The public names of Interlock; each is imported from its own module when it is first used.

`dir(interlock)` lists them; type checkers read them in `__init__.pyi`.
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
    "kernel.rows": ("by", "move", "reenter", "rows", "stay"),
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
        "never",
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
    "workers.remote.client": ("HttpClient",),
    "workers.terminal.command": ("guarded",),
    "workers.engine.submission": ("Submitted",),
    "workflow.changing": ("Refuse",),
    "workflow.data": ("Because", "Data", "Inbox", "Log", "Sum"),
    "workflow.durations": ("days", "hours", "minutes", "seconds"),
    "workflow.parts": ("Budget",),
    "workflow.place": ("WorkflowError",),
    "workflow.secret": ("Secret",),
    "workflow.work": ("Work",),
    "workflow.workflow": ("Workflow",),
}
# The clients of the systems, and what they return, by the name of the system.
_OF_SYSTEMS = {
    "jobs": {"client": ("Graphs",), "status": ("GraphView",)},
    "loops": {"client": ("Loops",)},
    "runs": {"client": ("Runs",)},
    "tasks": {"client": ("Tasks",)},
    "threads": {"client": ("Threads",)},
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names} | {
    name: f"systems.{system}.{module}"
    for system, modules in _OF_SYSTEMS.items()
    for module, names in modules.items()
    for name in names
}


def __dir__() -> list[str]:
    """Return the public names, of which `dir(interlock)` and the completion of shells tell."""
    return [*globals(), *_MODULE_OF]


def __getattr__(name: str) -> object:
    """Return a public name. Raises AttributeError for any other.

    Raises ImportError, with how to install it, if a package is missing that the name needs.
    """
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as missing:
        from interlock.extras import needed  # noqa: PLC0415 - the watchdog does without it

        raise ImportError(needed(name, missing)) from missing

"""The public names of Interlock; each is imported from its own module when it is first used."""

from __future__ import annotations

from importlib import import_module

# Type checkers take this name for true, and so see what __getattr__ returns. `typing` is not
# imported, because it takes a fifth of the time in which an agent's watchdog starts.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.kernel.amounts import amounts
    from interlock.kernel.effect import AWAITING, CASCADE, NOTIFICATION, RESOLUTION, SPAWN, Effect
    from interlock.kernel.errors import (
        CallError,
        ConflictError,
        EndedError,
        KernelError,
        StoreError,
    )
    from interlock.kernel.event import Event, Note
    from interlock.kernel.machine import Machine
    from interlock.kernel.payload import CardAnswer, ChildLost, RecordEnd, Shape, Tally, validated
    from interlock.kernel.scales import Level
    from interlock.kernel.table import (
        ORPHANS,
        PERSON,
        PRODUCER,
        STALLS,
        Active,
        Ask,
        AwaitedEnd,
        Terminal,
        Waiting,
        always,
        by,
        move,
        never,
        reenter,
        rows,
        stay,
    )
    from interlock.kernel.tags import Tags
    from interlock.kernel.timer import Timer
    from interlock.kernel.traits import Bookkeeping, Children
    from interlock.systems.jobs.client import Graphs
    from interlock.systems.jobs.status import GraphView
    from interlock.systems.loops.client import Loops
    from interlock.systems.runs.client import Runs
    from interlock.systems.tasks.client import Tasks
    from interlock.systems.threads.client import Threads
    from interlock.workers.client import Client
    from interlock.workers.config import Settings, read_settings
    from interlock.workers.engine.event_feed import FollowedEvent
    from interlock.workers.engine.polling import WaitTimeoutError
    from interlock.workers.engine.submission import Submitted
    from interlock.workers.engine.system import CommandRow, Panel, System
    from interlock.workers.engine.work import EffectWork, Outcome, OverBudgetError
    from interlock.workers.gateways.capabilities.capability import (
        CapabilityError,
        Steps,
        capability,
    )
    from interlock.workers.gateways.capabilities.result import Failed, Succeeded
    from interlock.workers.remote.client import HttpClient
    from interlock.workers.terminal.answer import guarded
    from interlock.workflow.changing import Refuse
    from interlock.workflow.data import Because, Data, Inbox, Log, Sum
    from interlock.workflow.durations import days, hours, minutes, seconds
    from interlock.workflow.parts import Budget
    from interlock.workflow.place import WorkflowError
    from interlock.workflow.secret import Secret
    from interlock.workflow.work import Work
    from interlock.workflow.workflow import Workflow

__all__ = [
    "AWAITING",
    "CASCADE",
    "NOTIFICATION",
    "ORPHANS",
    "PERSON",
    "PRODUCER",
    "RESOLUTION",
    "SPAWN",
    "STALLS",
    "Active",
    "Ask",
    "AwaitedEnd",
    "Because",
    "Bookkeeping",
    "Budget",
    "CallError",
    "CapabilityError",
    "CardAnswer",
    "ChildLost",
    "Children",
    "Client",
    "CommandRow",
    "ConflictError",
    "Data",
    "Effect",
    "EffectWork",
    "EndedError",
    "Event",
    "Failed",
    "FollowedEvent",
    "GraphView",
    "Graphs",
    "HttpClient",
    "Inbox",
    "KernelError",
    "Level",
    "Log",
    "Loops",
    "Machine",
    "Note",
    "Outcome",
    "OverBudgetError",
    "Panel",
    "RecordEnd",
    "Refuse",
    "Runs",
    "Secret",
    "Settings",
    "Shape",
    "Steps",
    "StoreError",
    "Submitted",
    "Succeeded",
    "Sum",
    "System",
    "Tags",
    "Tally",
    "Tasks",
    "Terminal",
    "Threads",
    "Timer",
    "WaitTimeoutError",
    "Waiting",
    "Work",
    "Workflow",
    "WorkflowError",
    "always",
    "amounts",
    "by",
    "capability",
    "days",
    "guarded",
    "hours",
    "minutes",
    "move",
    "never",
    "read_settings",
    "reenter",
    "rows",
    "seconds",
    "stay",
    "validated",
]

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


def __getattr__(name: str) -> Any:
    """Return a public name. Raises AttributeError for any other."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

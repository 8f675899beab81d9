# What type checkers read of the public names, which `__init__.py` imports when they are used.

from interlock.kernel.amounts import amounts as amounts
from interlock.kernel.effect import (
    AWAITING as AWAITING,
)
from interlock.kernel.effect import (
    CASCADE as CASCADE,
)
from interlock.kernel.effect import (
    NOTIFICATION as NOTIFICATION,
)
from interlock.kernel.effect import (
    RESOLUTION as RESOLUTION,
)
from interlock.kernel.effect import (
    SPAWN as SPAWN,
)
from interlock.kernel.effect import (
    Effect as Effect,
)
from interlock.kernel.errors import (
    CallError as CallError,
)
from interlock.kernel.errors import (
    ConflictError as ConflictError,
)
from interlock.kernel.errors import (
    EndedError as EndedError,
)
from interlock.kernel.errors import (
    KernelError as KernelError,
)
from interlock.kernel.errors import (
    StoreError as StoreError,
)
from interlock.kernel.event import Event as Event
from interlock.kernel.event import Note as Note
from interlock.kernel.machine import Machine as Machine
from interlock.kernel.payload import (
    CardAnswer as CardAnswer,
)
from interlock.kernel.payload import (
    ChildLost as ChildLost,
)
from interlock.kernel.payload import (
    RecordEnd as RecordEnd,
)
from interlock.kernel.payload import (
    Shape as Shape,
)
from interlock.kernel.payload import (
    Tally as Tally,
)
from interlock.kernel.payload import (
    validated as validated,
)
from interlock.kernel.rows import by as by
from interlock.kernel.rows import move as move
from interlock.kernel.rows import reenter as reenter
from interlock.kernel.rows import rows as rows
from interlock.kernel.rows import stay as stay
from interlock.kernel.scales import Level as Level
from interlock.kernel.table import (
    ORPHANS as ORPHANS,
)
from interlock.kernel.table import (
    PERSON as PERSON,
)
from interlock.kernel.table import (
    PRODUCER as PRODUCER,
)
from interlock.kernel.table import (
    STALLS as STALLS,
)
from interlock.kernel.table import (
    Active as Active,
)
from interlock.kernel.table import (
    Ask as Ask,
)
from interlock.kernel.table import (
    AwaitedEnd as AwaitedEnd,
)
from interlock.kernel.table import (
    Terminal as Terminal,
)
from interlock.kernel.table import (
    Waiting as Waiting,
)
from interlock.kernel.table import (
    always as always,
)
from interlock.kernel.table import (
    never as never,
)
from interlock.kernel.tags import Tags as Tags
from interlock.kernel.timer import Timer as Timer
from interlock.kernel.traits import Bookkeeping as Bookkeeping
from interlock.kernel.traits import Children as Children
from interlock.systems.jobs.client import Graphs as Graphs
from interlock.systems.jobs.status import GraphView as GraphView
from interlock.systems.loops.client import Loops as Loops
from interlock.systems.runs.client import Runs as Runs
from interlock.systems.tasks.client import Tasks as Tasks
from interlock.systems.threads.client import Threads as Threads
from interlock.workers.client import Client as Client
from interlock.workers.config import Settings as Settings
from interlock.workers.config import read_settings as read_settings
from interlock.workers.engine.event_feed import FollowedEvent as FollowedEvent
from interlock.workers.engine.polling import WaitTimeoutError as WaitTimeoutError
from interlock.workers.engine.submission import Submitted as Submitted
from interlock.workers.engine.system import (
    CommandRow as CommandRow,
)
from interlock.workers.engine.system import (
    Panel as Panel,
)
from interlock.workers.engine.system import (
    System as System,
)
from interlock.workers.engine.work import (
    EffectWork as EffectWork,
)
from interlock.workers.engine.work import (
    Outcome as Outcome,
)
from interlock.workers.engine.work import (
    OverBudgetError as OverBudgetError,
)
from interlock.workers.gateways.capabilities.capability import (
    CapabilityError as CapabilityError,
)
from interlock.workers.gateways.capabilities.capability import (
    Steps as Steps,
)
from interlock.workers.gateways.capabilities.capability import (
    capability as capability,
)
from interlock.workers.gateways.capabilities.result import Failed as Failed
from interlock.workers.gateways.capabilities.result import Succeeded as Succeeded
from interlock.workers.remote.client import HttpClient as HttpClient
from interlock.workers.terminal.command import guarded as guarded
from interlock.workflow.changing import Refuse as Refuse
from interlock.workflow.data import (
    Because as Because,
)
from interlock.workflow.data import (
    Data as Data,
)
from interlock.workflow.data import (
    Inbox as Inbox,
)
from interlock.workflow.data import (
    Log as Log,
)
from interlock.workflow.data import (
    Sum as Sum,
)
from interlock.workflow.durations import (
    days as days,
)
from interlock.workflow.durations import (
    hours as hours,
)
from interlock.workflow.durations import (
    minutes as minutes,
)
from interlock.workflow.durations import (
    seconds as seconds,
)
from interlock.workflow.parts import Budget as Budget
from interlock.workflow.place import WorkflowError as WorkflowError
from interlock.workflow.secret import Secret as Secret
from interlock.workflow.work import Work as Work
from interlock.workflow.workflow import Workflow as Workflow

"""An agent's process under a lease: its command, its reports, its end, and its logs.

A handler hands its lease over to a supervisor, a process of its own, which goes on when the worker
ends. The supervisor runs the agent's command, reads the lines that the agent reports, and fires the
outcome:

    def translate(work: EffectWork) -> Outcome | None:
        home = work.records.settings.home.absolute()
        folder = str(home / "translations" / work.record.id)
        spec = LaunchSpec(key=work.lease.key, token=work.lease.token, work_folder=folder)
        hand_over(work, "translating.agent", spec)  # to `main` of that module
        return None

    class Translator(Supervisor):
        def __init__(self, spec: LaunchSpec, records: Records) -> None:
            super().__init__(spec, records, "translation", TRANSLATING)
            self.spec = spec
            self.work = self.adopt("translation", TRANSLATING, spec.key, spec.token)
            self.stream = STREAMS["interlock"](ReportKinds.AGENT)

        def run(self) -> None:
            with self.heartbeat.holding(self.work.held):
                ended = self.run_command(
                    self.command(), lambda: (self.work,), act=self.obey, read=self.read
                )
                trigger = Trigger.DONE if ended.code == 0 else Trigger.FAILED
                self.work.fire_or_settle(Outcome(trigger))

        def obey(self, process: AgentProcess) -> None:
            if self.work.stopped.is_set():
                process.end("stopped", grace_s=10)

        def read(self, process: AgentProcess) -> None:
            for line in process.reports():
                for report in self.stream.feed(line):
                    ...  # Progress, AgentFailed, UsageAdded, RejectedLine and others

    def main() -> None:
        supervise(LaunchSpec, Translator)

`command` returns a `Command`, whose logs are `output.log` and `errors.log` in the work folder,
where an `OutputSource` finds them. If a supervisor dies, its process is killed, and the sweep of
orphans does what the record's state says of that. tests/seventh/translating has all of it.
"""

from __future__ import annotations

from interlock.workers.engine.work_environment import (
    environment_of_check,
    environment_of_program,
    environment_of_work,
)
from interlock.workers.processes.agent.contained import contained
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.processes.agent.output import PendingLines
from interlock.workers.processes.agent.process import (
    REPORT_FD,
    AgentProcess,
    Exit,
    SpawnError,
)
from interlock.workers.processes.bound_process import end_bound, extend, has_ended, start_bound
from interlock.workers.processes.clock import clock
from interlock.workers.processes.process_group import Tail, process_group, text_of
from interlock.workers.processes.sandbox import Sandbox
from interlock.workers.supervision.command import CommandError, check_command
from interlock.workers.supervision.launch import (
    LaunchSpec,
    hand_over,
    label_of,
    launch,
    process_label,
)
from interlock.workers.supervision.leased_process import Command
from interlock.workers.supervision.leftovers import kill_leftovers
from interlock.workers.supervision.redaction import last_words, secrets_of
from interlock.workers.supervision.reports import (
    OPEN_TOOLS_MAX,
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    MailSent,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    SessionOpened,
    SplitRequested,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)
from interlock.workers.supervision.streams import STREAMS
from interlock.workers.supervision.streams.interlock import WAIT_S_MAX, ReportKinds, parse_line
from interlock.workers.supervision.supervisor import Supervisor, supervise

__all__ = [
    "LABEL_VARIABLE",
    "OPEN_TOOLS_MAX",
    "REPORT_FD",
    "STREAMS",
    "WAIT_S_MAX",
    "AbortRaised",
    "AgentBlocked",
    "AgentFailed",
    "AgentProcess",
    "AgentReady",
    "CancelRequested",
    "Command",
    "CommandError",
    "CompactNeeded",
    "Compacted",
    "Exit",
    "LaunchSpec",
    "MailSent",
    "MessageWritten",
    "PendingLines",
    "Progress",
    "RejectedLine",
    "Report",
    "ReportKinds",
    "Sandbox",
    "SessionOpened",
    "SpawnError",
    "SplitRequested",
    "Supervisor",
    "Tail",
    "ToolCompleted",
    "ToolStarted",
    "UsageAdded",
    "UsageTotal",
    "UsedTokens",
    "WorkFinished",
    "check_command",
    "clock",
    "contained",
    "end_bound",
    "environment_of_check",
    "environment_of_program",
    "environment_of_work",
    "extend",
    "hand_over",
    "has_ended",
    "kill_leftovers",
    "label_of",
    "last_words",
    "launch",
    "parse_line",
    "process_group",
    "process_label",
    "secrets_of",
    "start_bound",
    "supervise",
    "text_of",
]

"""The supervisor of one agent under one lease, which is all that most systems need."""

from __future__ import annotations

import logging
from abc import abstractmethod

from interlock.git.errors import GitError
from interlock.kernel.errors import CallError, KernelError
from interlock.workers.engine.records import Records
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.processes.agent.process import AgentProcess, Exit
from interlock.workers.supervision.launch import LaunchSpec
from interlock.workers.supervision.listener import ReportListener
from interlock.workers.supervision.supervisor import Supervisor
from interlock.workers.supervision.work_command import Command

log = logging.getLogger(__name__)

STOPPED = "stopped"  # the reason for ending an agent whose lease is to end


class AgentSupervisor(Supervisor, ReportListener):
    """Runs the command of one agent under the lease `work`, and fires the outcome.

    It hears what the agent reports: override the methods of the reports that you need. They write
    by `work.note`, or fire a row that stays in the state by `work.fire`, and both try again while
    the store is away. Where such a method raises a KernelError, as for a record that has moved on,
    the report is lost: the log of the supervisor says why, and the agent goes on. An agent that is
    stopped gets SIGTERM, and SIGKILL after `grace_s`.

    A GitError, CallError or OSError of `command` or `outcome`, or of the start of the agent, fires
    the `failure`. Any other error ends this process, as where the store does not answer, the lease
    is lost, or another version has to do it: then the sweep of orphans does what the state says of
    a lost effect.
    """

    grace_s = 10.0

    def __init__(self, spec: LaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.work: EffectWork = self.adopt(self.machine, self.effect, spec.key, spec.token)

    @abstractmethod
    def command(self) -> Command:
        """Prepare the work, and return the command of the agent."""

    @abstractmethod
    def outcome(self, ended: Exit) -> Outcome:
        """Return the outcome of an agent whose process has ended; none of its processes is left."""

    @abstractmethod
    def failure(self, error: str) -> Outcome:
        """Return the outcome where git, the operating system or a rule refused something."""

    def run(self) -> None:
        """Run the agent to its end, and fire its outcome."""
        with self.heartbeat.holding(self.work.held):
            try:
                outcome = self.outcome(self.run_agent(self.command()))
            except (GitError, CallError, OSError) as error:
                outcome = self.failure(str(error))
            self.work.fire_or_settle(outcome)

    def run_agent(self, command: Command) -> Exit:
        """Run the command to its end. Raises OSError if it cannot be started."""
        return self.run_command(command, lambda: (self.work,), read=self._read, act=self.act)

    def act(self, process: AgentProcess) -> None:
        """Do what is due while the agent runs: end it when the work is stopped. Often called."""
        if self.work.stopped.is_set():
            process.end(STOPPED, grace_s=self.grace_s)

    def _read(self, process: AgentProcess) -> None:
        for line in process.reports():
            for report in self.read_line(line):
                try:
                    self.hear(report)
                except KernelError as error:
                    log.warning("%s: a report is lost: %s", self.work.key, error)

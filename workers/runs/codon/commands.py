"""Which commands a codon runs, where, and with which environment; it starts none of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from interlock.workers.config import PREFIX, environment_of_work
from interlock.workers.files.atomic import write_private
from interlock.workers.runs.codon.process import Command
from interlock.workers.runs.context import RunWork
from interlock.workers.runs.paths import CONVERSATION, MODEL, CodonPlace, codon_place
from interlock.workers.runs.plan.model import Observed, Speech
from interlock.workers.runs.sequence import Execution, Start


class CodonCommands:
    """The commands of one execution. `previous` is the execution whose session it continues."""

    def __init__(
        self,
        run: RunWork,
        start: Start,
        place: CodonPlace,
        previous: Execution | None,
        *,
        mark: str,
    ) -> None:
        self.run, self.start, self.codon = run, start, start.codon
        self.place, self.previous, self.mark = place, previous, mark

    def shell(self, words: str, **more: str) -> Command:
        """Return a shell's command in the workspace."""
        return Command(
            words=("bash", "-c", words),
            folder=self.run.workspace,
            environment=self.environment(more),
            output=self.place.output,
            errors=self.place.errors,
            mark=self.mark,
        )

    def agent(self) -> Command:
        """Return the command that is the codon's work: its own, or the one that asks a model."""
        codon = self.codon
        watched = any(
            Observed.OUTPUT_LINE in (*one.on, *one.sequence)
            for one in self.run.planned(codon.sentinels)
        )
        hears = watched or codon.speaks is Speech.CLAUDE
        if codon.command is not None:
            return self.shell(codon.command).heard(output=hears)
        assert codon.prompt is not None, "a codon has a command, or a model with a prompt"
        self._continued()
        own = {MODEL: str(codon.model), CONVERSATION: str(self.place.conversation)}
        words = (sys.executable, "-m", "interlock.workers.runs.codon.model_agent")
        asking = self.shell("true", **self.run.model_settings(), **own)
        return asking.other(words, codon.prompt).heard(output=hears)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return what its processes are told: the plan's own words overrule this machine's."""
        inside = self.start.loop_context
        own = {
            "RUN": self.run.place.id,
            "CODON": self.start.runtime_id,
            "ITERATION": str(inside.iteration) if inside else "",
            "WORKSPACE": str(self.run.workspace),
            "REPORT_KINDS": "session",
            "PREVIOUS_SESSION": self.start.previous_session_id or "",
        }
        return environment_of_work(
            self.run.plan.environment,
            self.codon.environment,
            {f"{PREFIX}{name}": value for name, value in own.items()},
            more or {},
        )

    def _continued(self) -> None:
        """Give it the conversation as it stood at the end of the execution that it continues."""
        if self.previous is None or not self.start.previous_session_id:
            return
        earlier = codon_place(self.previous.record, self.run.dispatch.settings).conversation
        if earlier.is_file():
            write_private(self.place.conversation, earlier.read_text("utf-8"))

"""The commands of one codon: what its processes run, where, and with which environment."""

from __future__ import annotations

from dataclasses import replace

from interlock.system.agents import Command
from interlock.system.files import PrivateFile
from interlock.systems.runs.context import RunContext
from interlock.systems.runs.paths import (
    CONVERSATION_VARIABLE,
    COSTS_LIMITED_VARIABLE,
    MODEL_VARIABLE,
    CodonPaths,
    codon_paths,
)
from interlock.systems.runs.plan.model import OutputFormat, SentinelEventName
from interlock.systems.runs.sequence import Execution, NextCodon

# The settings that the process of a model's codon needs.
MODEL_SETTINGS = (
    "model_base_url",
    "model_api_key",
    "model_attempts_max",
    "model_timeout_s",
    "model_prices",
)


class CodonCommands:
    """The commands of one execution. `previous` is the execution whose session it continues."""

    def __init__(
        self,
        context: RunContext,
        start: NextCodon,
        paths: CodonPaths,
        previous: Execution | None,
    ) -> None:
        self.context, self.start, self.codon = context, start, start.codon
        self.paths, self.previous = paths, previous

    def shell(self, script: str, **more: str) -> Command:
        """Return the command that runs a shell script in the workspace."""
        return Command(
            arguments=("bash", "-c", script),
            folder=self.context.workspace,
            variables={**self.variables(), **more},
            logs=self.paths.folder,
            sandbox=self.context.sandbox(),
        )

    def agent(self) -> Command:
        """Return the command of the codon's agent: the plan's, or the one that asks a model."""
        codon = self.codon
        is_watched = any(
            SentinelEventName.OUTPUT_LINE in (*sentinel.on, *sentinel.sequence)
            for sentinel in self.context.planned_sentinels(codon.sentinels)
        )
        reads_output = is_watched or codon.speaks is OutputFormat.CLAUDE
        if codon.command is not None:
            return replace(self.shell(codon.command), reads_output=reads_output)
        assert codon.prompt is not None, "a codon has a command, or a model with a prompt"
        self._copy_conversation()
        variables = {
            MODEL_VARIABLE: str(codon.model),
            CONVERSATION_VARIABLE: str(self.paths.conversation),
            COSTS_LIMITED_VARIABLE: "1" if self.context.limits_costs(codon) else "",
        }
        agent = self.shell("true", **variables).trusted(
            "interlock.systems.runs.codon.model_agent", self.context.settings, *MODEL_SETTINGS
        )
        return replace(agent, prompt=codon.prompt, reads_output=reads_output)

    def variables(self) -> dict[str, str]:
        """Return the variables of its processes; those of the plan overrule this computer's."""
        loop_context = self.start.loop_context
        about_codon = {
            "RUN": self.context.paths.id,
            "CODON": self.start.runtime_id,
            "ITERATION": str(loop_context.iteration) if loop_context else "",
            "WORKSPACE": str(self.context.workspace),
            "REPORT_KINDS": "session",
            "PREVIOUS_SESSION": self.start.previous_session_id or "",
        }
        described = {f"INTERLOCK_{name}": value for name, value in about_codon.items()}
        return {**self.context.plan.environment, **self.codon.environment, **described}

    def _copy_conversation(self) -> None:
        """Copy the conversation as it was at the end of the execution that this one continues."""
        if self.previous is None or not self.start.previous_session_id:
            return
        earlier = codon_paths(self.previous.record, self.context.settings).conversation
        if earlier.is_file():
            PrivateFile(self.paths.conversation).write(earlier.read_text("utf-8"))

"""Runs the agent of a translation: in a worktree, under a lease, and within a budget."""

from decimal import Decimal
from pathlib import Path

import interlock as il
from interlock.git.agent_files import content
from interlock.git.diff import Diff, diff
from interlock.git.repository import COMMITTER, Repository
from interlock.git.saved_work import commit_work
from interlock.git.worktree import add_worktree, own_sandbox, remove_worktree
from interlock.system import agents
from interlock.system.pages import DiffSource
from interlock.system.records import Records
from interlock.system.tables import MICRO, Record
from translating.reader import reading
from translating.table import TRANSLATION, TranslationData, Trigger

TEXT_BYTES_MAX = 100_000


def folder_of(record: Record[TranslationData], run: int) -> Path:
    """Return the work folder of an attempt, below the home of Interlock."""
    return Path("translations", record.id, str(run))


def branch_of(record: Record[TranslationData]) -> str:
    return f"interlock/translations/{record.id}"


def target_of(data: TranslationData) -> str:
    """Return where the agent writes: `guide.de.md` beside `guide.md`."""
    source = Path(data["source"])
    return str(source.with_name(f"{source.stem}.{data['language']}{source.suffix}"))


def translate(work: il.EffectWork[TranslationData]) -> None:
    home = work.records.settings.home.absolute()
    agents.hand_over(work, __name__, home / folder_of(work.record, work.record.data["attempt"]))


HANDLERS = {"translation": translate, "reading": reading}


class Translator(agents.AgentSupervisor):
    """Runs one attempt of an agent in the worktree, and commits what it leaves there."""

    machine, effect = "translation", TRANSLATION

    def __init__(self, spec: agents.LaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.data: TranslationData = self.work.record.data
        self.folder = self.work_folder.with_name("worktree")
        self.sandbox = agents.Sandbox.open(records.settings)
        self.error = ""
        self.is_over_budget = False

    def command(self) -> agents.Command:
        self.repository = Repository.open(Path(self.data["repository"]), sandbox=self.sandbox)
        branch, base = branch_of(self.work.record), self.data["base"]
        self.tree = add_worktree(self.repository, branch=branch, folder=self.folder, base=base)
        variables = {
            "TRANSLATION_SOURCE": self.data["source"],
            "TRANSLATION_TARGET": target_of(self.data),
            "TRANSLATION_LANGUAGE": self.data["language"],
            "TRANSLATION_REASON": self.data.get("reason", ""),
        }
        return agents.Command(
            arguments=("bash", "-c", self.data["agent"]),
            folder=self.folder,
            variables=variables,
            sandbox=self.sandbox and own_sandbox(self.sandbox, self.folder),
            prompt="".join(f"{it['term']}: {it['translation']}\n" for it in self.data["glossary"]),
        )

    def outcome(self, ended: agents.Exit) -> il.Outcome:
        text = content(self.folder / target_of(self.data), TEXT_BYTES_MAX).decode(errors="replace")
        commit_work(self.repository, self.tree, message=self.data["title"], identity=COMMITTER)
        remove_worktree(self.repository, self.folder, force=True)
        if ended.code:
            words = self.records.redaction.text((ended.errors or ended.output).strip())[-1_000:]
            self.error = self.error or f"exit code {ended.code}: {words}"
        if self.error or not text:
            return self.failure(self.error or "it wrote no translation")
        return il.Outcome(Trigger.DONE, {"translated": text})

    def failure(self, error: str) -> il.Outcome:
        return il.Outcome(Trigger.FAILED, {"error": error})

    def act(self, process: agents.AgentProcess) -> None:
        super().act(process)
        if self.is_over_budget:
            process.end("budget", grace_s=3)

    def on_progress(self, message: str, percent: int | None) -> None:
        self.work.note("progress", {"message": message, "percent": percent})

    def on_failed(self, failure: agents.AgentFailed) -> None:
        self.error = failure.error

    def on_rejected(self, reason: str, *, ends: bool) -> None:
        self.work.note("rejected", {"reason": reason, "ends": ends})

    def on_used(self, usage: agents.UsageAdded) -> None:
        """Count what was used, and end the agent if nothing is left of the budget."""
        tokens = usage.tokens.all_input + usage.tokens.output_tokens
        self.work.spend(usd=Decimal(usage.cost_micro) / MICRO, tokens=tokens)
        try:
            self.work.reserve(usd=Decimal("0.000001"))
        except il.OverBudgetError:
            self.error, self.is_over_budget = "its budget is used up", True


main = Translator.supervise


def output(_: il.Client, record: Record[TranslationData], run: int | None) -> tuple[str, Path, int]:
    """Return where an attempt prints: by default the last one."""
    number = run or record.data["attempt"]
    return record.data["host"], folder_of(record, number), number


def compared(record: Record[TranslationData], _: str, bytes_max: int, within_s: float) -> Diff:
    """Return what the branch of a translation changes."""
    base, commit = record.data["base"], branch_of(record)
    repository = Repository.open(Path(record.data["repository"]), command_s=within_s)
    return diff(repository, base=base, commit=commit, bytes_max=bytes_max, within_s=within_s)


DIFF = DiffSource(("translation",), lambda _, record: record.data["host"], compared)

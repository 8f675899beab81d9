"""Runs the agent of a translation: in a worktree, under a lease, and within a budget."""

from decimal import Decimal
from pathlib import Path

import interlock as il
from interlock.git.agent_files import content
from interlock.git.diff import Diff, diff
from interlock.git.errors import GitError
from interlock.git.repository import COMMITTER, Repository
from interlock.git.saved_work import commit_work
from interlock.git.worktree import add_worktree, own_sandbox, remove_worktree
from interlock.system import agents
from interlock.system.pages import DiffLimits, DiffSource, NoDiffError
from interlock.system.records import OutputSource, Records
from interlock.system.tables import Record
from translating.table import TRANSLATION, TranslationData, Trigger

TEXT_BYTES_MAX = 100_000


def folder_of(record: Record[TranslationData], run: int) -> str:
    """Return the work folder of an attempt, below the home of Interlock."""
    return f"translations/{record.id}/{run}"


def branch_of(record: Record[TranslationData]) -> str:
    return f"interlock/translations/{record.id}"


def target_of(data: TranslationData) -> str:
    """Return where the agent writes: `guide.de.md` beside `guide.md`."""
    source = Path(data["source"])
    return str(source.with_name(f"{source.stem}.{data['language']}{source.suffix}"))


def translate(work: il.EffectWork[TranslationData]) -> None:
    home = work.records.settings.home.absolute()
    folder = home / folder_of(work.record, work.record.data["attempt"])
    spec = agents.LaunchSpec(key=work.lease.key, token=work.lease.token, work_folder=str(folder))
    agents.hand_over(work, __name__, spec)


HANDLERS = {"translation": translate}


class Translator(agents.Supervisor):
    """Runs one attempt of an agent in the worktree, and commits what it leaves there."""

    def __init__(self, spec: agents.LaunchSpec, records: Records) -> None:
        super().__init__(spec, records, "translation", TRANSLATION)
        self.folder, self.label = Path(spec.work_folder), spec.process_label
        self.work = self.adopt("translation", TRANSLATION, spec.key, spec.token)
        self.data: TranslationData = self.work.record.data
        self.stream = agents.STREAMS["interlock"](agents.ReportKinds.AGENT)
        self.failure = ""

    def run(self) -> None:
        with self.heartbeat.holding(self.work.held):
            try:
                outcome = self.attempt()
            except (GitError, agents.SpawnError) as error:
                outcome = il.Outcome(Trigger.FAILED, {"error": str(error)})
            self.work.fire_or_settle(outcome)

    def attempt(self) -> il.Outcome:
        repository = Repository.open(
            Path(self.data["repository"]), sandbox=agents.Sandbox.open(self.records.settings)
        )
        branch, folder = branch_of(self.work.record), self.folder.with_name("worktree")
        tree = add_worktree(repository, branch=branch, folder=folder, base=self.data["base"])
        command = self.command(folder)
        ended = self.run_command(command, lambda: (self.work,), act=self.obey, read=self.read)
        text = content(folder / target_of(self.data), TEXT_BYTES_MAX).decode(errors="replace")
        commit_work(repository, tree, message=self.data["title"], identity=COMMITTER)
        remove_worktree(repository, folder, force=True)
        if ended.code:
            words = (ended.errors or ended.output).strip()
            words = agents.last_words(words, self.records.settings, length_max=1_000)
            self.failure = self.failure or f"exit code {ended.code}: {words}"
        if self.failure or not text:
            return il.Outcome(Trigger.FAILED, {"error": self.failure or "it wrote no translation"})
        return il.Outcome(Trigger.DONE, {"translated": text})

    def command(self, folder: Path) -> agents.Command:
        sandbox = agents.Sandbox.open(self.records.settings)
        variables = {
            "TRANSLATION_SOURCE": self.data["source"],
            "TRANSLATION_TARGET": target_of(self.data),
            "TRANSLATION_LANGUAGE": self.data["language"],
            "TRANSLATION_REASON": self.data.get("reason", ""),
        }
        return agents.Command(
            arguments=("bash", "-c", self.data["agent"]),
            folder=folder,
            environment=agents.environment_of_work(variables),
            output=self.folder / "output.log",
            errors=self.folder / "errors.log",
            process_label=self.label,
            sandbox=sandbox and own_sandbox(sandbox, folder),
            prompt="".join(f"{it['term']}: {it['translation']}\n" for it in self.data["glossary"]),
        )

    def obey(self, process: agents.AgentProcess) -> None:
        if self.work.stopped.is_set():
            process.end("stopped", grace_s=10)

    def read(self, process: agents.AgentProcess) -> None:
        for report in (one for line in process.reports() for one in self.stream.feed(line)):
            match report:
                case agents.Progress(message, percent):
                    self.work.note("progress", {"message": message, "percent": percent})
                case agents.UsageAdded():
                    self.spend(report, process)
                case agents.AgentFailed(error):
                    self.failure = error
                case agents.RejectedLine(reason):
                    self.work.note("rejected", {"reason": reason})

    def spend(self, used: agents.UsageAdded, process: agents.AgentProcess) -> None:
        """Count what was used, and end the agent if nothing is left of the budget."""
        tokens = used.tokens.all_input + used.tokens.output_tokens
        self.work.spend(usd=Decimal(used.cost_micro) / 1_000_000, tokens=tokens)
        try:
            self.work.reserve(usd=Decimal("0.000001"))
        except il.OverBudgetError:
            self.failure = "its budget is used up"
            process.end("budget", grace_s=3)


def main() -> None:
    agents.supervise(agents.LaunchSpec, Translator)


def output(_: il.Client, record: Record[TranslationData], run: int | None) -> OutputSource:
    """Return where an attempt prints: by default the last one."""
    number = run or record.data["attempt"]
    return OutputSource(record.data["host"], folder_of(record, number), number)


def compared(record: Record[TranslationData], _: str, limits: DiffLimits) -> Diff:
    """Return what the branch of a translation changes."""
    try:
        repository = Repository.open(Path(record.data["repository"]))
        return diff(
            repository,
            base=record.data["base"],
            commit=branch_of(record),
            bytes_max=limits.bytes_max,
            within_s=limits.within_s,
        )
    except GitError as error:
        raise NoDiffError(str(error)) from error


DIFF = DiffSource(("translation",), lambda _, record: record.data["host"], compared)

"""Runs both plans and says what happens: `python -m examples.clean_a_dataset`.

It starts a store, workers and beat of its own below .interlock/clean_a_dataset, and ends them
again. Every line with a `$` is a command that you could give; what follows is what it prints.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from examples.clean_a_dataset.spoil import MISSING_COLUMN, MISSING_STATE, spoilt
from examples.provider import Provider, read_script
from interlock.kernel.event import Note
from interlock.kernel.record import Record
from interlock.workers.client import Client
from interlock.workers.config import PREFIX, Settings, read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.runs import cli as run_cli
from interlock.workers.runs.client import Heard, Runs
from interlock.workers.runs.run_view import codon_shown
from interlock.workers.runs.screen import dollars
from interlock.workers.terminal import screen

HERE = Path(__file__).resolve().parent
WORKSPACE = "workspace"
PICO_IN_MICRO = 1_000_000
PATIENCE_S = 60.0
ENDED = ("completed", "failed", "skipped")


def say(line: str, style: str = "") -> None:
    """Print a line as it is."""
    screen.out.print(line.rstrip(), style=style, markup=False, highlight=False, soft_wrap=True)


class Story:
    """One workspace, told of from outside, with the commands that a person would give."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home, self.workspace = home, home / WORKSPACE
        # What the commands are told; they are given beside the workspace.
        os.environ |= {f"{PREFIX}HOME": str(home), f"{PREFIX}STORE_URL": settings.store_url}
        self.client = Client(settings, actor="example")
        self.runs = Runs(self.client)
        self.position = "0-0"

    def interlock(self, *words: str) -> None:
        """Give a command, as a person would beside the workspace."""
        say(f"$ interlock run {shlex.join(words)} -w {WORKSPACE}", style="bold")
        with chdir(self.home):
            code = run_cli.app([*words, "-w", WORKSPACE], standalone_mode=False)
        if code:
            raise SystemExit(f"the command ended with {code}")

    def watch(self) -> Record:
        """Tell of every codon that ends, until its run does; return the run."""
        opened, until = self.runs.workspace(self.workspace), time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for heard in self.runs.heard(opened, self.position):
                self.position = heard.position
                self._tell(heard)
                if heard.ends:
                    return self.runs.ended(heard.record, PATIENCE_S)
            time.sleep(0.05)
        raise SystemExit(f"the run did not end within {PATIENCE_S:g} s")

    def _tell(self, heard: Heard) -> None:
        data = heard.event.get("data", {})
        if heard.event.get("type") != "CodonTransitioned" or data["to"] not in ENDED:
            return
        record = self.client.show(heard.record)
        shown = codon_shown(record, record.since_ms)
        about = f"  {shown['codon']:<14}{shown['state']:<11}{dollars(shown['cost']):<11}"
        say(f"{about}{self._said(shown)}")
        for remark in self._remarks(heard.record):
            text = remark.get("said", remark.get("problem"))
            say(f"  {'':<14}{remark['sentinel']}: {text}", style="cyan")

    def _said(self, shown: Mapping[str, Any]) -> str:
        """Return the last line that a codon printed, or why it failed."""
        if shown["why"]:
            return str(shown["why"])
        lines = Path(shown["log"]).read_text("utf-8").splitlines() if shown["log"] else []
        return lines[-1] if lines else ""

    def _remarks(self, codon: str) -> list[dict[str, Any]]:
        log = self.client.history(codon)
        return [
            dict(line.detail)
            for line in log
            if isinstance(line, Note) and line.kind == "sentinel_said"
        ]


def prepare(home: Path) -> None:
    """Lay out the workspace: the spoilt table, and the scripts that the codons run."""
    workspace = home / WORKSPACE
    (workspace / "incoming").mkdir(parents=True)
    true = (HERE / "states.csv").read_text("utf-8")
    (workspace / "incoming" / "states.csv").write_text(spoilt(true), "utf-8")
    shutil.copytree(
        HERE / "steps", workspace / "steps", ignore=shutil.ignore_patterns("__pycache__")
    )
    for plan in ("plan.yaml", "describe.yaml"):
        shutil.copyfile(HERE / plan, home / plan)


def clean(story: Story) -> None:
    """Run the plan: the validator refuses the table, a person answers, and it goes on."""
    screen.out.rule("a spoilt table of the 50 states, and a plan that cleans it")
    story.interlock("start", "plan.yaml")
    run = story.watch()
    if run.state != "failed":
        raise SystemExit("the validator let a table pass that has a gap")
    screen.out.rule("it stopped where a person has to say something")
    story.interlock("status")
    answer(story.workspace)
    story.interlock("redo", "complete", "--as-is")
    if story.watch().state != "completed":
        raise SystemExit("the run failed again")
    for words in (("status",), ("costs", "--since", "1"), ("checkpoints",)):
        screen.out.rule()
        story.interlock(*words)
    screen.out.rule("REPORT.md, which the last codon wrote")
    say((story.workspace / "REPORT.md").read_text("utf-8"))
    cleaned = (story.workspace / "data" / "table.csv").read_bytes()
    if cleaned != (HERE / "states.csv").read_bytes():
        raise SystemExit("the cleaned table is not what it was before it was spoilt")
    say("\ndata/table.csv is byte for byte what it was before it was spoilt")


def answer(workspace: Path) -> None:
    """Put what was missing into the workspace, where the codon `complete` looks for it."""
    told = f"state,column,value\n{MISSING_STATE},{MISSING_COLUMN},Pierre"
    (workspace / "incoming" / "corrections.csv").write_text(told + "\n", "utf-8")
    say(f"$ cat {WORKSPACE}/incoming/corrections.csv", style="bold")
    say(told)


def describe(story: Story, ledger: Path) -> None:
    """Run the plan of a model, and compare what it cost with the ledger of its provider."""
    screen.out.rule("the same workspace, and a plan whose codons are a model's")
    story.interlock("start", "describe.yaml")
    run = story.watch()
    if run.state != "completed":
        raise SystemExit("the model's run failed")
    story.interlock("costs")
    screen.out.rule("what the provider says of it: charges.jsonl")
    charges = [json.loads(line) for line in ledger.read_text("utf-8").splitlines()]
    for number, charge in enumerate(charges, start=1):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in charge["tokens"].items())
        say(f"  {number}  {dollars(charge['picodollars'] // PICO_IN_MICRO)}  {kinds}")
    spent = run.counters["tree.spent"]
    charged = sum(charge["picodollars"] for charge in charges) / PICO_IN_MICRO
    say(f"Interlock counted {spent:,} micro-dollars, its provider charged {charged:,.0f}")
    if spent != charged:
        raise SystemExit("the costs are not those of the provider's ledger")


def main() -> None:
    """Run the example."""
    began = time.monotonic()
    home = Path(os.environ.get(f"{PREFIX}HOME", ".interlock")).absolute() / "clean_a_dataset"
    shutil.rmtree(home, ignore_errors=True)
    prepare(home)
    # The codons are run by the interpreter that runs this, wherever it is installed.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    script = read_script(json.loads((HERE / "answers.json").read_text("utf-8")))
    ledger = home / "charges.jsonl"
    with Provider(script, ledger=ledger) as provider:
        told = {"HOME": str(home), "MODEL_BASE_URL": provider.url, "MODEL_API_KEY": "scripted"}
        settings = read_settings({f"{PREFIX}{name}": value for name, value in told.items()})
        with Deployment(settings, flower=False) as deployment:
            story = Story(home, deployment.settings)
            clean(story)
            describe(story, ledger)
    screen.out.print(f"after {time.monotonic() - began:.0f} s", style="dim")


if __name__ == "__main__":
    main()

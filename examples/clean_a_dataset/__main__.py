"""Runs both plans and prints their progress: `python -m examples.clean_a_dataset`.

It starts a store, workers and beat of its own below .interlock/clean_a_dataset, and ends them
again. Each line with a `$` is a command that you could type; its output follows.
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
from interlock.kernel.amounts import dollars
from interlock.kernel.event import Note
from interlock.kernel.record import Record
from interlock.systems.runs import cli as run_cli
from interlock.systems.runs.client import AppliedEvent, Runs
from interlock.systems.runs.run_values import codon_value
from interlock.workers.client import Client
from interlock.workers.config import PREFIX, Settings, read_settings
from interlock.workers.ops.deployment import Deployment
from interlock.workers.ops.home import new_home
from interlock.workers.terminal import screen

HERE = Path(__file__).resolve().parent
WORKSPACE = "workspace"
PICO_IN_MICRO = 1_000_000
WAIT_S_MAX = 60.0
ENDED = ("completed", "failed", "skipped")


def print_line(line: str, style: str = "") -> None:
    """Print a line without interpreting markup."""
    screen.out.print(line.rstrip(), style=style, markup=False, highlight=False, soft_wrap=True)


class Demonstration:
    """One workspace, and the commands that a person would type beside it."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home, self.workspace = home, home / WORKSPACE
        # The commands run beside the workspace, and read these variables.
        os.environ |= {f"{PREFIX}HOME": str(home), f"{PREFIX}STORE_URL": settings.store}
        self.client = Client(settings, actor="example")
        self.runs = Runs(self.client)
        self.position = "0-0"

    def run_command(self, *arguments: str) -> None:
        """Run a command of `interlock run`, as a person would type it."""
        print_line(f"$ interlock run {shlex.join(arguments)} -w {WORKSPACE}", style="bold")
        with chdir(self.home):
            code = run_cli.app([*arguments, "-w", WORKSPACE], standalone_mode=False)
        if code:
            raise SystemExit(f"the command ended with {code}")

    def watch(self) -> Record:
        """Print each codon that ends, until the run ends; return the run."""
        opened, until = self.runs.workspace(self.workspace), time.monotonic() + WAIT_S_MAX
        while time.monotonic() < until:
            for applied in self.runs.events_after(opened, self.position):
                self.position = applied.position
                self._print_end(applied)
                if applied.ends:
                    return self.runs.wait_for_end(applied.record, WAIT_S_MAX)
            time.sleep(0.05)
        raise SystemExit(f"the run did not end within {WAIT_S_MAX:g} s")

    def _print_end(self, applied: AppliedEvent) -> None:
        data = applied.event.get("data", {})
        if applied.event.get("type") != "CodonTransitioned" or data["to"] not in ENDED:
            return
        record = self.client.show(applied.record)
        shown = codon_value(record, record.since_ms)
        about = f"  {shown['codon']:<14}{shown['state']:<11}{dollars(shown['cost']):<11}"
        print_line(f"{about}{self._last_line(shown)}")
        for remark in self._remarks(applied.record):
            text = remark.get("text", remark.get("problem"))
            print_line(f"  {'':<14}{remark['sentinel']}: {text}", style="cyan")

    def _last_line(self, shown: Mapping[str, Any]) -> str:
        """Return the last line of a codon's output, or why it failed."""
        if shown["why"]:
            return str(shown["why"])
        lines = Path(shown["log"]).read_text("utf-8").splitlines() if shown["log"] else []
        return lines[-1] if lines else ""

    def _remarks(self, codon: str) -> list[dict[str, Any]]:
        log = self.client.history(codon)
        return [
            dict(line.detail)
            for line in log
            if isinstance(line, Note) and line.kind == "sentinel_remark"
        ]


def prepare(home: Path) -> None:
    """Make the workspace with the spoilt table and the scripts that the codons run."""
    workspace = home / WORKSPACE
    (workspace / "incoming").mkdir(parents=True)
    true = (HERE / "states.csv").read_text("utf-8")
    (workspace / "incoming" / "states.csv").write_text(spoilt(true), "utf-8")
    shutil.copytree(
        HERE / "steps", workspace / "steps", ignore=shutil.ignore_patterns("__pycache__")
    )
    for plan in ("plan.yaml", "describe.yaml"):
        shutil.copyfile(HERE / plan, home / plan)


def clean(demonstration: Demonstration) -> None:
    """Run the plan: validation fails, a person adds what is missing, and the run is redone."""
    screen.out.rule("a spoilt table of the 50 states, and a plan that cleans it")
    demonstration.run_command("start", "plan.yaml")
    run = demonstration.watch()
    if run.state != "failed":
        raise SystemExit("the validator accepted a table with a gap")
    screen.out.rule("the run failed, because a person has to add a value")
    demonstration.run_command("status")
    answer(demonstration.workspace)
    demonstration.run_command("redo", "complete", "--as-is")
    if demonstration.watch().state != "completed":
        raise SystemExit("the run failed again")
    for arguments in (("status",), ("costs", "--since", "1"), ("checkpoints",)):
        screen.out.rule()
        demonstration.run_command(*arguments)
    screen.out.rule("REPORT.md, which the last codon wrote")
    print_line((demonstration.workspace / "REPORT.md").read_text("utf-8"))
    cleaned = (demonstration.workspace / "data" / "table.csv").read_bytes()
    if cleaned != (HERE / "states.csv").read_bytes():
        raise SystemExit("the cleaned table is not what it was before it was spoilt")
    print_line("\ndata/table.csv is byte for byte what it was before it was spoilt")


def answer(workspace: Path) -> None:
    """Write the missing capital to the file that the codon `complete` reads."""
    correction = f"state,column,value\n{MISSING_STATE},{MISSING_COLUMN},Pierre"
    (workspace / "incoming" / "corrections.csv").write_text(correction + "\n", "utf-8")
    print_line(f"$ cat {WORKSPACE}/incoming/corrections.csv", style="bold")
    print_line(correction)


def describe(demonstration: Demonstration, ledger: Path) -> None:
    """Run the plan that uses a model, and compare its costs with the provider's ledger."""
    screen.out.rule("the same workspace, and a plan whose codons call a model")
    demonstration.run_command("start", "describe.yaml")
    run = demonstration.watch()
    if run.state != "completed":
        raise SystemExit("the model's run failed")
    demonstration.run_command("costs")
    screen.out.rule("the ledger of the provider: charges.jsonl")
    charges = [json.loads(line) for line in ledger.read_text("utf-8").splitlines()]
    for number, charge in enumerate(charges, start=1):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in charge["tokens"].items())
        print_line(f"  {number}  {dollars(charge['picodollars'] // PICO_IN_MICRO)}  {kinds}")
    spent = run.counters["tree.spent"]
    charged = sum(charge["picodollars"] for charge in charges) / PICO_IN_MICRO
    print_line(f"Interlock counted {spent:,} micro-dollars, its provider charged {charged:,.0f}")
    if spent != charged:
        raise SystemExit("the costs differ from the provider's ledger")


def main() -> None:
    """Run the example."""
    began = time.monotonic()
    home = new_home(Path(os.environ.get(f"{PREFIX}HOME", ".interlock")) / "clean_a_dataset")
    prepare(home)
    # The codons run with the same Python interpreter as this example.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    script = read_script(json.loads((HERE / "answers.json").read_text("utf-8")))
    ledger = home / "charges.jsonl"
    with Provider(script, ledger=ledger) as provider:
        variables = {"HOME": str(home), "MODEL_BASE_URL": provider.url, "MODEL_API_KEY": "scripted"}
        settings = read_settings({f"{PREFIX}{name}": value for name, value in variables.items()})
        with Deployment(settings, pages=False) as deployment:
            demonstration = Demonstration(home, deployment.settings)
            clean(demonstration)
            describe(demonstration, ledger)
    screen.out.print(f"after {time.monotonic() - began:.0f} s", style="dim")


if __name__ == "__main__":
    main()

"""Measures how often the embedded model chooses the expected capability, on 60 requests.

Run it from the project: `python -m bench.judge_embedded`. A request in the domain is right if its
capability is proposed, ready to run; one out of the domain is right if the model asks instead. The
baseline always gives the most common expected answer. Parameters are counted separately.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.embedded import EmbeddedModel
from interlock.systems.threads.inference.outcome import ModelProposal
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.tier import Tier
from interlock.workers.gateways.llm.outcome import Answered

ROOT = Path(__file__).resolve().parent.parent
REQUESTS = ROOT / "tests" / "systems" / "threads" / "golden" / "requests.json"
TUNING = ROOT / "bench" / "tuning.json"
ASKS = "(asks)"
ANSWER_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Judged:
    """One request, the expected proposal and the model's."""

    title: str
    expected: str
    proposed: str
    confidence: float
    parameters_right: bool | None

    @property
    def right(self) -> bool:
        """Return whether the proposal is the expected one."""
        return self.expected == self.proposed


@dataclass(frozen=True, slots=True)
class Report:
    """All requests of one set."""

    judged: tuple[Judged, ...]

    @property
    def accuracy(self) -> float:
        """Return the share of the requests that were right."""
        return _share([request.right for request in self.judged])

    @property
    def baseline(self) -> float:
        """Return the accuracy of always giving the most common answer."""
        counts = Counter(request.expected for request in self.judged)
        return max(counts.values()) / len(self.judged)

    @property
    def out_of_domain_rejected(self) -> float:
        """Return the share of the requests out of domain that end in a question."""
        return self.recall(ASKS)

    @property
    def parameters_right(self) -> float:
        """Return how often the parameters were right when the capability was."""
        checked = [
            request
            for request in self.judged
            if request.right and request.parameters_right is not None
        ]
        return _share([bool(request.parameters_right) for request in checked])

    def recall(self, expected: str) -> float:
        """Return the share of requests with this expected answer that got it."""
        return _share([request.right for request in self.judged if request.expected == expected])

    def precision(self, proposed: str) -> float:
        """Return the share of proposals of this capability that were right."""
        return _share([request.right for request in self.judged if request.proposed == proposed])


def catalog() -> tuple[OfferedCapability, ...]:
    """Return the capabilities of the judged requests."""
    return tuple(
        OfferedCapability(
            item["name"], item["description"], tuple(item["examples"]), item["parameters"]
        )
        for item in json.loads(REQUESTS.read_text(encoding="utf-8"))["catalog"]
    )


def judge(path: Path = REQUESTS) -> Report:
    """Ask the embedded model for every action of a set of requests."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Report(tuple(asyncio.run(_ask(document, catalog()))))


async def _ask(document: Mapping[str, Any], choices: tuple[OfferedCapability, ...]) -> list[Judged]:
    model = EmbeddedModel()
    judged = []
    for request in document["requests"]:
        question = Question(
            target=Target.ACTION,
            inciting={
                "source": "judge",
                "title": request["title"],
                "text": request["text"],
                "at": document["at"],
                "fields": {},
            },
            items=(),
            feedback=(),
            intent=None,
            context=None,
            catalog=choices,
            previous=None,
            turned_down=(),
            tier=Tier.LOCAL_FAST,
        )
        outcome = await model.answer(question, timeout_s=ANSWER_S_MAX)
        assert isinstance(outcome, Answered), outcome
        judged.append(_judged(request, outcome))
    return judged


def _judged(
    request: Mapping[str, Any], outcome: Answered[Mapping[Target, ModelProposal]]
) -> Judged:
    proposal = outcome.answer[Target.ACTION]
    payload = proposal.payload
    expected = request.get("parameters")
    got = payload["parameters"]
    return Judged(
        title=request["title"],
        expected=request["expected"] or ASKS,
        proposed=payload["capability"] if payload["kind"] == "standard" else ASKS,
        confidence=proposal.confidence,
        parameters_right=expected and all(got.get(key) == expected[key] for key in expected),
    )


def show(report: Report, console: Console) -> None:
    """Print the table."""
    counts = Counter(request.expected for request in report.judged)
    table = Table("expected", "requests", "right", "recall", "precision", title="embedded model")
    for name in sorted(counts, key=lambda name: (name == ASKS, name)):
        right = sum(request.right for request in report.judged if request.expected == name)
        row = (f"{report.recall(name):.0%}", f"{report.precision(name):.0%}")
        table.add_row(name, str(counts[name]), str(right), *row)
    console.print(table)
    console.print(f"accuracy               {report.accuracy:.1%}")
    console.print(f"majority baseline      {report.baseline:.1%}")
    console.print(f"out of domain rejected {report.out_of_domain_rejected:.1%}")
    console.print(f"parameters right       {report.parameters_right:.1%} (where given and chosen)")
    for request in report.judged:
        if not request.right:
            came = f"{request.proposed} ({request.confidence:.2f})"
            line = f"  {request.title!r}: {came}, not {request.expected}"
            console.print(line, markup=False)


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 0.0


if __name__ == "__main__":
    show(judge(TUNING if "--tuning" in sys.argv else REQUESTS), Console())

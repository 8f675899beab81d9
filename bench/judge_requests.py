"""Measures what the embedded model does without a person, on three sets of requests.

Run it from the project: `python -m bench.judge_requests` prints the figures and each request that
was done wrongly or asked about; with `--write` it draws the figures into the README.md beside the
sets. A request acts without a person if the model proposes a standard action, and its confidence in
intent and action is at least the floor of the policies. Nothing else of a policy is counted, which
is the stricter way. examples/README.md has the capabilities; `fits` says when a parameter is right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.embedded import propose
from interlock.systems.threads.inference.outcome import ModelProposal
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.inference.reading.meaning import meanings
from interlock.systems.threads.machines.autonomy import COMPOSITIONS, DEFAULT_COMPOSITION
from interlock.systems.threads.tier import Tier
from interlock.workers.gateways.capabilities.registry import load_registry
from scripts.documents import renewed

ROOT = Path(__file__).absolute().parent.parent
FOLDER = ROOT / "tests" / "systems" / "threads" / "inference"
PAGE = FOLDER / "README.md"
# The model was made on the first two, and not changed after it was measured on the last.
SETS: Mapping[str, Path] = {
    "own": FOLDER / "own_requests.jsonl",
    "seen": FOLDER / "seen_requests.jsonl",
    "held out": FOLDER / "held_out_requests.jsonl",
}
FLOOR = COMPOSITIONS[DEFAULT_COMPOSITION].inference_confidence_floor
WRONG_MAX, ALONE_MIN = 0.01, 0.7
BANDS = (0.0, 0.3, FLOOR, 0.8, 0.95)
# A parameter that is not named has this value or is absent.
DEFAULTS: Mapping[str, Any] = {"due": None, "duration_min": 60, "folder": "filed"}
# What was said beside a title may be kept here; no request names it.
DETAILS = "details"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the model did with one request."""

    request: Mapping[str, Any]
    payload: Mapping[str, Any]
    confidence: float
    # Whether what it proposes is right; None if it proposes nothing.
    right: bool | None

    @property
    def acts(self) -> bool:
        """Return whether nobody is asked before it is done."""
        return self.right is not None and self.confidence >= FLOOR

    @property
    def wrong(self) -> bool:
        """Return whether it is done wrongly before anybody has seen it."""
        return self.acts and not self.right


@cache
def catalog() -> tuple[OfferedCapability, ...]:
    """Return the capabilities of the examples."""
    return tuple(one.offered for one in load_registry("examples/capabilities.toml").catalog())


@cache
def judge(name: str) -> tuple[Verdict, ...]:
    """Ask the model about each request of a set."""
    lines = SETS[name].read_text("utf-8").splitlines()
    return tuple(map(verdict, map(json.loads, lines)))


def verdict(request: Mapping[str, Any]) -> Verdict:
    """Ask the model about one request, and compare its answer with what is right."""
    proposal, confidence = asked(request, request["title"], text_of(request))
    payload = proposal.payload
    if payload["kind"] != "standard":
        return Verdict(request, payload, confidence, None)
    rights = [request["right"], *request.get("also", ())]
    if payload["capability"] == "decompose":
        children = payload["parameters"]["children"]
        splits = [right["parts"] for right in rights if right["do"] == "split"]
        right = any(fits_split(request, children, parts) for parts in splits)
        return Verdict(request, payload, confidence, right)
    right = any(one["do"] == "act" and fits(one, payload) for one in rights)
    return Verdict(request, payload, confidence, right)


def text_of(request: Mapping[str, Any]) -> str:
    """Return the text of a request; a very long one is written as a text and how often it comes."""
    if "text_repeated" in request:
        text, times = request["text_repeated"]
        return str(text) * int(times)
    return str(request["text"])


def asked(request: Mapping[str, Any], title: str, text: str) -> tuple[ModelProposal, float]:
    """Return the action that the model proposes, and the lower confidence of intent and action."""
    question = Question(
        target=Target.COMBINED,
        inciting={"title": title, "text": text, "at": request["at"], "fields": {}},
        items=tuple(request.get("items", ())),
        feedback=(),
        intent=None,
        context=None,
        catalog=catalog(),
        previous=None,
        turned_down=(),
        tier=Tier.FRONTIER_FAST,
    )
    found = propose(question, meanings())
    action = found[Target.ACTION]
    return action, min(found[Target.INTENT].confidence, action.confidence)


def fits_split(
    request: Mapping[str, Any],
    children: Sequence[Mapping[str, Any]],
    parts: Sequence[Mapping[str, Any]],
) -> bool:
    """Return whether each child that acts by itself does one of the parts, and no two the same."""
    left = list(parts)
    for child in children:
        action, confidence = asked(request, child["title"], child["text"])
        if action.payload["kind"] != "standard" or confidence < FLOOR:
            continue
        found = [part for part in left if fits(part, action.payload)]
        if not found:
            return False
        left.remove(found[0])
    return True


def fits(right: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    """Return whether an action is the right one, with the right parameters."""
    wanted, got = right["parameters"], payload["parameters"]
    return right["capability"] == payload["capability"] and all(
        _fits_value(wanted.get(name, DEFAULTS.get(name)), got.get(name, DEFAULTS.get(name)), got)
        for name in (set(wanted) | set(got)) - {DETAILS}
    )


def _fits_value(wanted: Any, got: Any, parameters: Mapping[str, Any]) -> bool:
    if isinstance(wanted, Mapping):
        said = str(got or "").lower()
        everything = f"{said} {parameters.get(DETAILS, '')}".lower()
        has = all(word.lower() in everything for word in wanted.get("has", ()))
        return has and not any(word.lower() in said for word in wanted.get("lacks", ()))
    return got in wanted if isinstance(wanted, list) else got == wanted


def figures() -> str:
    """Return the figures of all sets as Markdown."""
    sets = {name: judge(name) for name in SETS}
    head = "| | " + " | ".join(sets) + " |"
    lines = [head, "|---" * (len(sets) + 1) + "|"]

    def row(words: str, *cells: str) -> None:
        lines.append(f"| {words} | " + " | ".join(cells) + " |")

    row("done wrongly without a person", *(_share(_wrong(rows), rows) for rows in sets.values()))
    row(
        "plain ones done without a person",
        *(_share(_alone(rows), _plain(rows)) for rows in sets.values()),
    )
    lines += ["", "| confidence | proposals | right |", "|---|---|---|"]
    everything = [one for rows in sets.values() for one in rows if one.right is not None]
    for low, high in zip(BANDS, (*BANDS[1:], 1.01), strict=True):
        band = [one for one in everything if low <= one.confidence < high]
        if band:
            shown = f"{low:.2f} to {min(high, 1):.2f}"
            lines.append(
                f"| {shown} | {len(band)} | {_share([o for o in band if o.right], band)} |"
            )
    return "\n".join(lines)


def kinds() -> Iterator[str]:
    """Yield for each kind of request what the model did with those of each set."""
    sets = {name: judge(name) for name in SETS}
    for kind in dict.fromkeys(one.request["kind"] for rows in sets.values() for one in rows):
        cells = []
        for name, rows in sets.items():
            of_kind = [one for one in rows if one.request["kind"] == kind]
            acted = [one for one in of_kind if one.acts]
            wrong, asked_about = len(_wrong(of_kind)), len(of_kind) - len(acted)
            cells.append(f"{name} {len(acted) - wrong} done, {asked_about} asked, {wrong} wrong")
        yield f"{kind}: {'; '.join(cells)}"


def _wrong(rows: Sequence[Verdict]) -> list[Verdict]:
    return [one for one in rows if one.wrong]


def _plain(rows: Sequence[Verdict]) -> list[Verdict]:
    return [one for one in rows if not one.request["trap"]]


def _alone(rows: Sequence[Verdict]) -> list[Verdict]:
    return [one for one in _plain(rows) if one.acts and one.right]


def _share(some: Sequence[Verdict], rows: Sequence[Verdict]) -> str:
    return f"{len(some)} of {len(rows)} ({len(some) / len(rows):.1%})" if rows else "none"


def main(arguments: Sequence[str]) -> None:
    """Print the figures with what went wrong, or write them."""
    if "--write" in arguments:
        PAGE.write_text(renewed(PAGE, figures), "utf-8")
        return
    print(figures(), "", *kinds(), sep="\n")
    for name in SETS:
        for one in judge(name):
            if one.wrong or not (one.acts or one.request["trap"]):
                said = one.payload["blocked_on"] or one.payload["summary"]
                print(f"\n{'WRONG' if one.wrong else 'asked'} {name} {one.request['id']}", end=": ")
                print(one.request["title"], one.payload["parameters"], said, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The next codon of a run: each rule by itself, then random histories against a slow oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from interlock.systems.runs.machines.values import LoopContext
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.plan.model import PlannedCodon, PlannedLoop, RunPlan
from interlock.systems.runs.sequence import (
    Execution,
    Halted,
    HaltReason,
    NextCodon,
    NextStep,
    PlanFinished,
    StrangeHistoryError,
    next_step,
    progress,
)


def codon(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "command": "true", **more}


def loop(name: str, until: dict[str, Any], *codons: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "until": until, "codons": list(codons)}


def plan(*steps: dict[str, Any]) -> RunPlan:
    return RunPlan.of({"name": "p", "steps": list(steps)})


def history_of(text: str) -> list[Execution]:
    """Return a history: `a` completed, `-b#0` was skipped, `!c/final` failed and is not retried."""
    return [_execution(word) for word in text.split()]


def _execution(word: str) -> Execution:
    name, *flags = word.lstrip("!-").split("/")
    codon_id, looped, iteration = name.partition("#")
    found = Execution(
        codon_id=codon_id,
        iteration=int(iteration) if looped else None,
        status={"!": CodonEnd.FAILED, "-": CodonEnd.SKIPPED}.get(word[0], CodonEnd.COMPLETED),
        session_id=f"of-{name}",
        messages=1,
        retriable=word[0] == "!",
    )
    for flag in flags:
        fields = {"retry_after_ms": int(flag[:-2])} if flag.endswith("ms") else FLAGS[flag]
        found = replace(found, **fields)
    return found


def text_of(step: NextStep) -> str:
    """Return the next step as a short text."""
    match step:
        case PlanFinished():
            return "finished"
        case Halted():
            return f"{step.position.runtime_id} {step.cause}"
        case NextCodon():
            parts = [step.runtime_id]
            parts += [f"in {step.previous_session_id}"] if step.previous_session_id else []
            parts += [f"after {step.delay_ms}"] if step.delay_ms else []
            return " ".join(parts)


FLAGS: dict[str, dict[str, Any]] = {
    "context": {"context_exceeded": True},
    "budget": {"budget_exceeded": True},
    "ignored": {"ignored": True},
    "final": {"retriable": False},
    "mute": {"messages": 0},
    "nameless": {"session_id": None},
}
GOES_ON = {"continuation": "continue_previous"}
RETRIES = {"on_failure": {"policy": "retry", "attempts": 3, "delay_ms": 1_000}}
IGNORES = {"on_failure": {"policy": "ignore"}}
TWO = plan(codon("a"), codon("b"))
AB_TWICE = plan(loop("l", {"iterations": 2}, codon("a"), codon("b")), codon("z"))
AB_WHILE = plan(loop("l", {"context_exceeded": True}, codon("a"), codon("b")), codon("z"))
A_CAPPED = plan(loop("l", {"context_exceeded": True, "iterations": 2}, codon("a")), codon("z"))
CONTINUES = plan(codon("a", **IGNORES), codon("b", **GOES_ON, **RETRIES))
LOOP_CONTINUES = plan(loop("l", {"iterations": 3}, codon("a"), codon("b", **GOES_ON)))
INTO_LOOP = plan(codon("a"), loop("l", {"iterations": 3}, codon("b", **GOES_ON)))
AFTER_LOOP = plan(loop("l", {"context_exceeded": True}, codon("a")), codon("z", **GOES_ON))
TRIES = plan(codon("a", **RETRIES), codon("b"))
TRIES_LONG = plan(
    codon("a", on_failure={"policy": "retry", "attempts": 10, "delay_ms": 20_000}), codon("b")
)
ONCE = plan(codon("a", on_failure={"policy": "retry", "attempts": 1}))
LOOP_TRIES = plan(loop("l", {"iterations": 2}, codon("a", **RETRIES)))
SEVENTY = " ".join(f"a#{n} b#{n}" for n in range(70))
LOOP_IGNORES = plan(loop("l", {"iterations": 2}, codon("a"), codon("b", **IGNORES)), codon("z"))

# fmt: off
CASES = [
    ("the first codon is first",               TWO, "", "a"),
    ("the plan's order is kept",               TWO, "a", "b"),
    ("a skipped codon is done",                TWO, "-a/mute", "b"),
    ("all done is finished",                   TWO, "a b", "finished"),
    ("a failure aborts",                       TWO, "!a", "a aborted"),
    ("a failure that was ignored is done",     TWO, "!a/ignored", "b"),
    ("a failure to be ignored is done",        CONTINUES, "!a", "b nothing_to_continue"),
    ("the last execution counts",              TWO, "a !a", "a aborted"),
    ("a redone codon is done",                 TWO, "!a a", "b"),

    ("a loop counts from 0",                   AB_TWICE, "", "a#0"),
    ("an iteration has its order",             AB_TWICE, "a#0", "b#0"),
    ("its last codon begins the next one",     AB_TWICE, "a#0 b#0", "a#1"),
    ("skipped, it does as well",               AB_TWICE, "a#0 -b#0", "a#1"),
    ("ignored, it does as well",               LOOP_IGNORES, "a#0 !b#0", "a#1"),
    ("failed, it does not",                    AB_TWICE, "a#0 !b#0", "b#0 aborted"),
    ("the bound ends a loop",                  AB_TWICE, "a#0 b#0 a#1 b#1", "z"),
    ("what follows a loop ends the run",       AB_TWICE, "a#0 b#0 a#1 b#1 z", "finished"),
    ("an exceeded context ends a loop",        AB_WHILE, "a#0 b#0/context", "z"),
    ("and drops the rest of an iteration",     AB_WHILE, "a#0 b#0 a#1/context", "z"),
    ("without, the loop goes on",              AB_WHILE, SEVENTY, "a#70"),
    ("an exceeded context ends no other loop", AB_TWICE, "a#0/context", "b#0"),
    ("an exceeded budget ends any loop",       AB_TWICE, "a#0/budget", "z"),
    ("also one until the context is",          AB_WHILE, "a#0/budget", "z"),
    ("outside of loops it ends nothing",       TWO, "a/budget", "b"),
    ("a failure over budget halts",            AB_TWICE, "!a#0/budget", "a#0 aborted"),
    ("an ignored one over budget ends it",     LOOP_IGNORES, "a#0 !b#0/budget", "z"),
    ("a cap holds while the context does",     A_CAPPED, "a#0 a#1", "z"),
    ("a context may end it before the cap",    A_CAPPED, "a#0/context", "z"),

    ("a completed codon is continued",         CONTINUES, "a", "b in of-a"),
    ("a skipped one that spoke is continued",  CONTINUES, "-a", "b in of-a"),
    ("a skipped one that did not is not",      CONTINUES, "-a/mute", "b nothing_to_continue"),
    ("nor one that reported no session",       CONTINUES, "a/nameless", "b nothing_to_continue"),
    ("a retry continues what it did before",   CONTINUES, "a !b", "b in of-a after 1000"),
    ("the last execution is continued",        CONTINUES, "a/nameless a", "b in of-a"),
    ("a loop continues in its iteration",      LOOP_CONTINUES, "a#0 b#0 a#1", "b#1 in of-a#1"),
    ("a loop continues what is before it",     INTO_LOOP, "a", "b#0 in of-a"),
    ("an iteration continues the one before",  INTO_LOOP, "a b#0", "b#1 in of-b#0"),
    ("what ended a loop is continued",         AFTER_LOOP, "a#0/context", "z in of-a#0"),

    ("a failure is tried again",               TRIES, "!a", "a after 1000"),
    ("the next time after twice as long",      TRIES, "!a !a", "a after 2000"),
    ("attempts count the first one",           TRIES, "!a !a !a", "a attempts_used"),
    ("one attempt is no retry",                ONCE, "!a", "a attempts_used"),
    ("what cannot be repaired is not",         TRIES, "!a/final", "a not_retriable"),
    ("only the last one decides that",         TRIES, "!a/final !a", "a after 2000"),
    ("a success ends the count",               TRIES, "!a !a a !a", "a after 1000"),
    ("also that of one that was skipped",      TRIES, "!a -a !a", "a after 1000"),
    ("a minute is the longest delay",          TRIES_LONG, "!a !a !a !a", "a after 60000"),
    ("before that it is doubled",              TRIES_LONG, "!a !a", "a after 40000"),
    ("a failure may name the delay",           TRIES, "!a/7ms", "a after 7"),
    ("also at once",                           TRIES, "!a/0ms", "a"),
    ("only the last one does",                 TRIES, "!a/7ms !a", "a after 2000"),
    ("it waits no longer than a minute",       TRIES, "!a/3600000ms", "a after 60000"),
    ("above an hour it is not believed",       TRIES, "!a/3600001ms", "a after 1000"),
    ("each iteration has its own attempts",    LOOP_TRIES, "!a#0 !a#0 a#0 !a#1", "a#1 after 1000"),
]
# fmt: on


@pytest.mark.parametrize(
    ("planned", "history", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0].replace(" ", "-") for case in CASES],
)
def test_what_follows(planned: RunPlan, history: str, expected: str) -> None:
    assert text_of(next_step(planned, history_of(history), start_index=0)) == expected


# fmt: off
EARLIER = [
    ("what an earlier run completed is done", TWO, "a", "", "b"),
    ("what it skipped is done",               TWO, "-a", "", "b"),
    ("what it ignored is done",               TWO, "!a/ignored", "", "b"),
    ("where it failed starts again",          TWO, "!a", "", "a"),
    ("also where failures are ignored",       CONTINUES, "!a", "", "a"),
    ("its attempts do not count",             TRIES, "!a !a !a", "", "a"),
    ("only those of this run do",             TRIES, "!a !a !a", "!a", "a after 1000"),
    ("a failure of this run aborts",          TWO, "!a", "!a", "a aborted"),
    ("a failure after its success aborts",    TWO, "a", "!a", "a aborted"),
    ("its session is continued",              CONTINUES, "a !b", "", "b in of-a"),
    ("its loop goes on",                      AB_TWICE, "a#0 !b#0", "b#0", "a#1"),
    ("its loop has ended",                    AB_WHILE, "a#0/context", "", "z"),
]
# fmt: on


@pytest.mark.parametrize(
    ("planned", "earlier", "own", "expected"),
    [case[1:] for case in EARLIER],
    ids=[case[0].replace(" ", "-") for case in EARLIER],
)
def test_what_follows_in_a_run_that_continues_another(
    planned: RunPlan, earlier: str, own: str, expected: str
) -> None:
    before = history_of(earlier)

    assert (
        text_of(next_step(planned, [*before, *history_of(own)], start_index=len(before)))
        == expected
    )


def test_a_start_tells_its_place_in_the_loop() -> None:
    step = next_step(AB_TWICE, history_of("a#0 b#0 a#1"), start_index=0)

    assert isinstance(step, NextCodon)
    assert (step.codon.id, step.runtime_id) == ("b", "b#1")
    assert step.loop_context == LoopContext(loop_id="l", iteration=1, index=1)
    outside = next_step(TWO, [], start_index=0)
    assert isinstance(outside, NextCodon)
    assert outside.loop_context is None


def test_a_halt_says_why_for_people() -> None:
    halted = [
        next_step(TWO, history_of("!a"), start_index=0),
        next_step(TRIES, history_of("!a !a !a"), start_index=0),
        next_step(CONTINUES, history_of("a/nameless"), start_index=0),
    ]

    assert [one.reason for one in halted if isinstance(one, Halted)] == [
        "a failed, and on_failure is abort; repair the cause, then `interlock run redo --as-is`",
        "a failed at attempt 3 of 3; repair the cause, then `interlock run redo --as-is`",
        (
            "b is to continue the session before it, but a, which it follows, reported no session; "
            "let it start a fresh session"
        ),
    ]


def test_a_history_of_another_plan_is_refused() -> None:
    for strange in ("x", "a#0", "x#1"):
        with pytest.raises(StrangeHistoryError, match=f"no codon for '{strange}'"):
            next_step(TWO, history_of(strange), start_index=0)
    with pytest.raises(StrangeHistoryError, match="no codon for 'a'"):
        progress(AB_TWICE, history_of("a"), start_index=0)


# fmt: off
PROGRESS = [
    (TWO,      "",                (0, 2)),
    (TWO,      "a a",             (1, 2)),
    (TWO,      "!a",              (0, 2)),
    (TWO,      "a b",             (2, 2)),
    (AB_TWICE, "a#0 b#0 a#1",     (3, 5)),
    (AB_TWICE, "a#0/budget",      (1, 2)),
    (AB_WHILE, "a#0 b#0 a#1",     (3, None)),
    (AB_WHILE, "a#0 b#0/context", (2, 3)),
    (A_CAPPED, "a#0",             (1, None)),
    (A_CAPPED, "a#0 a#1",         (2, 3)),
    (A_CAPPED, "a#0/context z",   (2, 2)),
]
# fmt: on


@pytest.mark.parametrize(("planned", "history", "expected"), PROGRESS)
def test_progress_counts_what_is_done_of_all_that_is_known(
    planned: RunPlan, history: str, expected: tuple[int, int | None]
) -> None:
    assert progress(planned, history_of(history), start_index=0) == expected


class Oracle:
    """Computes the next step slowly: lists all codons that could run, then drops those done."""

    def __init__(self, planned: RunPlan, history: list[Execution], start_index: int) -> None:
        self.planned, self.history, self.start_index = planned, history, start_index
        self.codons = {one.id: one for one in planned.codons()}

    def next_step(self) -> str:
        names = [name for step in self.planned.steps for name in self.names(step)]
        left = [i for i, name in enumerate(names) if not self.done(name)]
        if not left:
            return "finished"
        name = names[left[0]]
        letters = "".join(
            "F" if self.history[i].status == "failed" else "."
            for i in self.indexes(name)
            if i >= self.start_index
        )
        failures = len(letters) - len(letters.rstrip("F"))
        if failures and (halted := self.halted(name, failures)):
            return f"{name} {halted}"
        step = name
        if self.codon(name).continuation == "continue_previous":
            session_id = self.session(names[left[0] - 1]) if left[0] else None
            if not session_id:
                return f"{name} nothing_to_continue"
            step += f" in {session_id}"
        delay = self.delay(name, failures) if failures else 0
        return f"{step} after {delay}" if delay else step

    def codon(self, name: str) -> PlannedCodon:
        return self.codons[name.partition("#")[0]]

    def indexes(self, name: str) -> list[int]:
        return [i for i, one in enumerate(self.history) if one.runtime_id == name]

    def last(self, name: str) -> Execution:
        return self.history[self.indexes(name)[-1]]

    def done(self, name: str) -> bool:
        if not self.indexes(name):
            return False
        of_this_run = self.indexes(name)[-1] >= self.start_index
        ignored = self.last(name).ignored or (
            of_this_run and self.codon(name).on_failure.policy == "ignore"
        )
        return self.last(name).status != "failed" or ignored

    def names(self, step: PlannedCodon | PlannedLoop) -> list[str]:
        if isinstance(step, PlannedCodon):
            return [step.id]
        furthest = max([one.iteration or 0 for one in self.history], default=0) + 2
        rounds = min(step.until.iterations or furthest, furthest)
        inside = [f"{one.id}#{n}" for n in range(rounds) for one in step.codons]
        undone = [i for i, name in enumerate(inside) if not self.done(name)]
        for i, name in enumerate(inside[: undone[0]] if undone else inside):
            over = step.until.context_exceeded and self.last(name).context_exceeded
            if over or self.last(name).budget_exceeded:
                return inside[: i + 1]
        return inside

    def halted(self, name: str, failures: int) -> str:
        rule = self.codon(name).on_failure
        if rule.policy == "abort":
            return "aborted"
        if not self.last(name).retriable:
            return "not_retriable"
        return "attempts_used" if failures >= rule.attempts else ""

    def delay(self, name: str, failures: int) -> int:
        named = self.last(name).retry_after_ms
        if named is not None and named <= 60 * 60 * 1_000:
            return min(named, 60_000)
        delay = self.codon(name).on_failure.delay_ms
        for _ in range(failures - 1):
            delay *= 2
        return min(delay, 60_000)

    def session(self, name: str) -> str | None:
        last = self.last(name)
        if last.status == "completed" or (last.status == "skipped" and last.messages > 0):
            return last.session_id
        return None


UNTIL: list[dict[str, Any]] = [
    {"iterations": 1},
    {"iterations": 3},
    {"context_exceeded": True},
    {"context_exceeded": True, "iterations": 2},
]


def any_plan(random: Random) -> RunPlan:
    """Return a plan of up to four steps."""
    number = iter(range(100))

    def any_codon() -> dict[str, Any]:
        policy = random.choice(["abort", "ignore", "retry", "retry"])
        rule: dict[str, Any] = {"policy": policy}
        if policy == "retry":
            delay = random.choice([0, 500, 40_000])
            rule |= {"attempts": random.randint(1, 4), "delay_ms": delay}
        continuation = random.choice(["fresh", "fresh", "continue_previous"])
        return codon(f"c{next(number)}", on_failure=rule, continuation=continuation)

    def any_step() -> dict[str, Any]:
        if random.random() < 0.5:
            return any_codon()
        until = random.choice(UNTIL)
        inside = [any_codon() for _ in range(random.randint(1, 3))]
        return loop(f"l{next(number)}", until, *inside)

    return plan(*[any_step() for _ in range(random.randint(1, 4))])


def any_end(random: Random, name: str) -> Execution:
    status = random.choice(["completed"] * 5 + ["failed"] * 3 + ["skipped"])
    return replace(
        _execution(name),
        status=CodonEnd(status),
        session_id=random.choice([f"s{random.randint(0, 9)}"] * 5 + [None]),
        messages=random.randint(0, 2),
        context_exceeded=random.random() < 0.1,
        budget_exceeded=random.random() < 0.05,
        ignored=status == "failed" and random.random() < 0.2,
        retriable=random.random() < 0.8,
        retry_after_ms=random.choice([None, None, 5, 100_000, 4_000_000]),
    )


@pytest.mark.fuzz
def test_random_histories_are_followed_as_a_slow_oracle_computes(*, is_proof: bool) -> None:
    random = Random(0)
    seen: set[str] = set()
    for _ in range(3_000 if is_proof else 150):
        planned, history, start_index = any_plan(random), list[Execution](), 0
        for _ in range(25):
            step = next_step(planned, history, start_index=start_index)
            assert text_of(step) == Oracle(planned, history, start_index).next_step(), (
                planned,
                history,
                start_index,
            )
            done, total = progress(planned, history, start_index=start_index)
            assert total is None or done <= total
            assert (done == total) == isinstance(step, PlanFinished)
            seen |= {word for word in text_of(step).split() if not word.startswith(("c", "s"))}
            if isinstance(step, PlanFinished):
                break
            if isinstance(step, Halted) or random.random() < 0.1:
                start_index = len(history)
            names = [step.position.runtime_id] * 9 + [one.runtime_id for one in history[-2:]]
            history.append(any_end(random, random.choice(names)))
    halts = {halt.value for halt in HaltReason}
    assert seen >= {"finished", "in", "after", *halts}, "the histories have met every rule"

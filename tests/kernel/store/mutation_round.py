"""Changes each rule of the scripts once, and shows with which changes all tests pass.

A rule is a condition, a part of one beside `and` or `or`, a write with its key and arguments, a
call of a function, or a field that is set.

`make mutants` does so for every script and part, `make mutants SCRIPT=retry` or
`SCRIPT=part/grant` for one. Each change is run against the tests of this folder that call the
script, in one process, the fastest first, until one fails. A line is printed for each change that
survives, with its file, line and column, what was there and what took its place; and one for each
file, with the number of its changes. What survives is a rule without a test, or no rule: the script
does the same without it. SAME has the changes that may survive, each with the reason: they are not
printed. The exit status is 1 where another survived.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest
import redis

from interlock.kernel.store import migration, scripts
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store import kernel_at_a_fixed_time as fixed_time
from tests.kernel.store.kernel_at_a_fixed_time import ORIGINAL, Text, World

LUA = Path(str(files("interlock.kernel.store"))) / "lua"
HERE = Path(__file__).parent
LEFT_OUT = {"test_mutants", "test_histories"}
FIXTURES = {"world", "client", "prefix", "text", "server", "monkeypatch"}
FIXED_TIME = {"world", "text"}  # tests with one of these have a clock that only they move
WRITES = r"(?:H|Z|S|X|L|P|UN|D|IN)[A-Z]+"
READS = {"HGET", "HMGET", "HGETALL", "HKEYS", "HLEN", "ZSCORE", "ZRANGE", "ZCARD", "SISMEMBER"}
READS |= {"SCARD", "XLEN", "XRANGE", "XREVRANGE", "INFO"}
CALL = re.compile(rf"redis\.call\(\s*'({WRITES})'")
GUARD = re.compile(r"\b(?:else)?if\s+(.+?)\s+then\b", re.DOTALL)
JOINT = re.compile(r"\s+(and|or)\s+")
COMMENT = re.compile(r"--.*")
STATEMENT = re.compile(r"^ *(?:[a-z_]+\(.*\)|[a-z_]+\.[a-z_]+ = .*[^,{(])$")
SAME_AS_1 = {"1", "1-0"}  # to a server that takes either as a number or a position
SOCKET_S = 10.0
TEST_S = 20  # a test that takes longer repeats a call for ever, which is a failure
NO_TIMER = "what no timer has as its name is deleted in vain"
SLOWER = "the script only reads more than it needs"
# Changes after which a script does the same: the file, what was there, and what takes its place.
SAME = {
    ("part/holds_and_queues", "#names == 0", "false"): SLOWER,
    ("adopt", "was_quarantined", "true"): SLOWER,
    ("claim", "asked", "true"): SLOWER,
    ("release", "asked", "true"): SLOWER,
    ("part/entry", "mark == 't'", "true"): NO_TIMER,
    ("part/slot_wait", "asked", "true"): SLOWER,
    ("commit", "left.revived", "true"): SLOWER,
    ("renew", "was_quarantined", "true"): SLOWER,
    ("settle", "entry.state == 'quarantined'", "true"): SLOWER,
    ("settle", "entry.kind == 'spawn'", "true"): "other effects are given no countdown",
    ("part/transition", "not set_anew[name]", "true"): "what is set anew is written afterwards",
    ("identify_server", "open_at", "'1'"): "any time that is past opens the gate",
    ("reject", "'size'", "'1'"): "the script reads it by its place; the name is for people",
    ("take_publication", "'-inf'", "'1'"): "nothing was taken in the first ms of all time",
    ("restore", "'mail'", "'1'"): "the message is deleted at once",
    ("restore", "'{}'", "'1'"): "the message is deleted at once",
}
Part = tuple[int, int, str]  # where a part of a text begins and ends, and what replaces it


@dataclass(frozen=True)
class Change:
    """One change of a file of Lua: where it begins, what it replaces, and by what."""

    file: str
    line: int
    column: int
    old: str
    new: str
    text: str  # of the whole file, changed

    @property
    def known(self) -> tuple[str, str, str]:
        """How SAME names the change."""
        return self.file, self.old, self.new


@dataclass(frozen=True)
class Case:
    """One test of this folder; it has its arguments but for the fixtures that it needs."""

    name: str
    run: Callable[..., None]
    needs: frozenset[str]


def body_of(file: str) -> str:
    """Return a file as it is put into scripts."""
    lines = (LUA / f"{file}.lua").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--@use"))


def changes_of(file: str) -> Iterator[Change]:
    """Yield every change of a file."""
    body = body_of(file)
    lines_left_out = len((LUA / f"{file}.lua").read_text("utf-8").splitlines())
    lines_left_out -= len(body.splitlines())
    for start, end, new in (*_guards(body), *_writes(body), *_statements(body)):
        line = body.count("\n", 0, start) + 1 + lines_left_out
        column = start - body.rfind("\n", 0, start)
        yield Change(file, line, column, body[start:end], new, body[:start] + new + body[end:])


def _guards(body: str) -> Iterator[Part]:
    """Yield each condition, as never and as always true, and without each of its parts."""
    for guard in GUARD.finditer(COMMENT.sub(lambda found: " " * len(found[0]), body)):
        yield from ((*guard.span(1), new) for new in ("false", "true"))
        yield from _parts(guard[1], guard.start(1))


def _parts(condition: str, start: int) -> Iterator[Part]:
    """Yield each part of a condition as what changes nothing: true beside and, false beside or."""
    joints = list(JOINT.finditer(condition))
    begins = [0, *(joint.end() for joint in joints)]
    ends = [*(joint.start() for joint in joints), len(condition)]
    words = ["", *(joint[1] for joint in joints), ""]
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        part = condition[begin:end]
        left = max(0, part.count("(") - part.count(")"))
        right = max(0, part.count(")") - part.count("("))
        if not (part.startswith("(" * left) and part.endswith(")" * right)):
            continue  # a part of the arguments of a call
        # What is on the other side of a parenthesis does not belong to the part.
        beside = ("" if left else words[number], "" if right else words[number + 1])
        if any(beside):
            yield start + begin + left, start + end - right, str("and" in beside).lower()


def _writes(body: str) -> Iterator[Part]:
    """Yield each writing command: without it, to another key, with each argument changed."""
    for call in CALL.finditer(body):
        if call[1] in READS or _is_comment(body, call.start()):
            continue
        end = _closing(body, body.index("(", call.start()))
        if not body[body.rfind("\n", 0, call.start()) + 1 : call.start()].strip():
            yield call.start(), end, ""
        key, *arguments = _arguments(body, call.end(), end - 1)
        yield *key, f"{body[slice(*key)]} .. '~'"
        for start, stop in arguments:
            yield start, stop, "'0'" if body[start:stop].strip("'") in SAME_AS_1 else "'1'"


def _statements(body: str) -> Iterator[Part]:
    """Yield each line that only calls a function or sets a field, without it."""
    position = 0
    for line in body.splitlines(keepends=True):
        if STATEMENT.match(line.rstrip("\n")):
            yield position + len(line) - len(line.lstrip()), position + len(line.rstrip()), ""
        position += len(line)


def _is_comment(body: str, position: int) -> bool:
    return "--" in body[body.rfind("\n", 0, position) + 1 : position]


def _closing(body: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(body)):
        depth += {"(": 1, ")": -1}.get(body[position], 0)
        if depth == 0:
            return position + 1
    raise ValueError(f"no closing parenthesis after {body[opening : opening + 40]!r}")


def _arguments(body: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return where each argument between a command and its closing parenthesis is."""
    commas, depth = [], 0
    for position in range(start, end):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(body[position], 0)
        if body[position] == "," and depth == 0:
            commas.append(position)
    found = []
    for first, last in itertools.pairwise([*commas, end]):
        text = body[first + 1 : last]
        found.append((first + 1 + len(text) - len(text.lstrip()), first + 1 + len(text.rstrip())))
    return found


def cases() -> Iterator[Case]:
    """Yield every test of this folder that needs no other fixtures than FIXTURES."""
    for path in sorted(HERE.glob("test_*.py")):
        if path.stem in LEFT_OUT:
            continue
        module = importlib.import_module(f"tests.kernel.store.{path.stem}")
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and test.__module__ == module.__name__:
                yield from _cases_of(f"{path.stem}::{name}", test)


def _cases_of(name: str, test: Callable[..., None]) -> Iterator[Case]:
    rows: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            rows = [{**row, **one} for row in rows for one in _rows(names, values)]
    for row in rows:
        needs = frozenset(inspect.signature(test).parameters) - set(row)
        if needs and needs <= FIXTURES:
            yield Case(name, partial(test, **row), needs)


def _rows(names: str | Sequence[str], values: Any) -> Iterator[dict[str, Any]]:
    split = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    for value in values:
        plain = value.values if hasattr(value, "marks") else value
        if len(split) > 1:
            yield dict(zip(split, plain, strict=True))
        else:
            yield {split[0]: plain[0] if hasattr(value, "marks") else plain}


class Round:
    """Runs tests against changed scripts, on a server that it starts again when one hangs it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.called = folder, set[str]()
        self.server: EmbeddedServer | None = None
        self.client: redis.Redis = self._new_client()

    def _new_client(self) -> redis.Redis:
        if self.server is not None:
            self.server.stop()
        self.server = EmbeddedServer(self.folder / uuid4().hex[:8])
        self.server.start()
        return redis.Redis.from_url(self.server.url, socket_timeout=SOCKET_S)

    def fails(self, case: Case, change: Change | None) -> str:
        """Run a test; return how it failed, or ''."""
        text = Text() if case.needs & FIXED_TIME else Text(now_us=None)
        fixed_time.ORIGINAL = partial(changed, change)  # type: ignore[assignment]
        scripts.source_of = text.source_of  # type: ignore[assignment]
        scripts.sha_of = partial(self._sha_of, text)  # type: ignore[assignment]
        prefix = f"m{uuid4().hex[:8]}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migration, "FENCE_S", 0)  # there are no others to wait for
            world = World(self.client, prefix, text)
            given = {"world": world, "text": text, "prefix": prefix, "monkeypatch": patch}
            given |= {"server": self.server, "client": self.client}
            signal.alarm(TEST_S)
            try:
                case.run(**{name: given[name] for name in case.needs})
            except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - any tells it
                return f"{type(failure).__name__}: {failure}"
            finally:
                signal.alarm(0)
        return ""

    def _sha_of(self, text: Text, name: str) -> str:
        self.called.add(name)
        return text.sha_of(name)

    def clear(self) -> None:
        """Forget what the tests wrote, or start another server where this one hangs."""
        try:
            self.client.flushall()
            self.client.script_flush()
        except redis.exceptions.RedisError:
            self.client = self._new_client()

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.stop()


def changed(change: Change | None, name: str) -> str:
    """Return a script's text with one change of it, or of a part that it uses."""
    source = ORIGINAL(name)
    return source.replace(body_of(change.file), change.text) if change else source


def uses(file: str, script: str) -> bool:
    """Whether a script has a file's text in it."""
    return body_of(file) in ORIGINAL(script)


def main(wanted: Sequence[str]) -> None:
    """Run the round for the named scripts and parts, or for all."""
    every = sorted(str(p.relative_to(LUA).with_suffix("")) for p in LUA.rglob("*.lua"))
    if unknown := sorted(set(wanted) - set(every)):
        sys.exit(f"there is no script {unknown[0]}; there are: {', '.join(every)}")
    signal.signal(signal.SIGALRM, _give_up)
    with TemporaryDirectory() as folder:
        round_ = Round(Path(folder))
        try:
            survived = _run(round_, wanted or every)
        finally:
            round_.close()
    sys.exit(1 if survived else 0)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    # A TimeoutError would be taken for a late answer of the server, and the call repeated.
    pytest.fail(f"a test has taken longer than {TEST_S} s")


def _run(round_: Round, wanted: Sequence[str]) -> int:
    """Try the changes of each file; return how many survived."""
    callers, survived = _callers(round_), 0
    for file in wanted:
        chosen = [case for case, called in callers if any(uses(file, script) for script in called)]
        changes = list(changes_of(file))
        found = [change for change in changes if _survives(round_, change, chosen)]
        same = {known for known in SAME if known[0] == file}
        if stale := same - {change.known for change in found}:
            sys.exit(f"{file}.lua: take out of SAME what is gone or makes a test fail: {stale}")
        unexplained = [change for change in found if change.known not in same]
        _say(f"{file}.lua: {len(changes)} changes, {len(unexplained)} survived")
        survived += len(unexplained)
    return survived


def _callers(round_: Round) -> list[tuple[Case, set[str]]]:
    """Run each test without a change; return it with the scripts it calls, the fastest first."""
    timed: list[tuple[float, Case, set[str]]] = []
    for case in cases():
        round_.called.clear()
        began = time.monotonic()
        if failure := round_.fails(case, None):
            sys.exit(f"{case.name} fails without a change: {failure}")
        timed.append((time.monotonic() - began, case, set(round_.called)))
    round_.clear()
    return [(case, called) for _, case, called in sorted(timed, key=lambda one: one[0])]


def _say(line: str) -> None:
    with suppress(BrokenPipeError):
        print(line, flush=True)  # noqa: T201 - the answer of the command


def _survives(round_: Round, change: Change, chosen: list[Case]) -> bool:
    failures = ((case, round_.fails(case, change)) for case in chosen)
    failed = next((one for one in failures if one[1]), None)
    round_.clear()
    if failed is None:
        if change.known not in SAME:
            _say(_line(change))
        return True
    case, failure = failed
    if "Error compiling" in failure:
        sys.exit(f"{_line(change)} is no script: {failure}")
    # A test that fails with one change will often fail with the next one of the same script.
    chosen.remove(case)
    chosen.insert(0, case)
    return False


def _line(change: Change) -> str:
    new = change.new or "nothing"
    place = f"{change.file}.lua:{change.line}:{change.column}"
    return f"{place}: {' '.join(change.old.split())} -> {new}"


if __name__ == "__main__":
    main(sys.argv[1:])

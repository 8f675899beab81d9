"""Changes each guard, write and argument of the scripts once, and shows what no test misses.

`make mutants` does so for every script and part, `make mutants SCRIPT=retry` or
`SCRIPT=part/grant` for one. Each change is run against the tests of this folder that call the
script, in one process, until one fails. What survives is a rule without a test, or no rule: the
script does the same without it.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
import redis

from interlock.kernel.store import scripts
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store import kernel_at_a_fixed_time as fixed_time
from tests.kernel.store.kernel_at_a_fixed_time import ORIGINAL, Text, World

LUA = Path(str(files("interlock.kernel.store"))) / "lua"
HERE = Path(__file__).parent
LEFT_OUT = {"test_mutants", "test_histories"}
WRITES = r"(?:H|Z|S|X|L|P|UN|D|IN)[A-Z]+"
READS = {"HGET", "HMGET", "HGETALL", "HKEYS", "HLEN", "ZSCORE", "ZRANGE", "ZCARD", "SISMEMBER"}
READS |= {"SCARD", "XLEN", "XREVRANGE", "INFO"}
CALL = re.compile(rf"redis\.call\(\s*'({WRITES})'")
GUARD = re.compile(r"\b(?:else)?if (.+?) then\b")
STATEMENT = re.compile(r"^ *[a-z_]+\(.*\)$")
SOCKET_S = 10.0
Part = tuple[int, int, str]  # where a part of a text begins and ends, and what replaces it


@dataclass(frozen=True)
class Change:
    """One change of a file of Lua: where it begins, what it replaces, and by what."""

    file: str
    line: int
    old: str
    new: str
    text: str  # of the whole file, changed


@dataclass(frozen=True)
class Case:
    """One test of this folder; it has its arguments but for the world."""

    name: str
    run: Callable[[World], None]


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
        yield Change(file, line, body[start:end], new, body[:start] + new + body[end:])


def _guards(body: str) -> Iterator[Part]:
    """Yield each condition, as never and as always true."""
    for guard in GUARD.finditer(body):
        if not _is_comment(body, guard.start()):
            yield from ((*guard.span(1), new) for new in ("false", "true"))


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
            yield start, stop, "'1'" if body[start:stop] != "'1'" else "'0'"


def _statements(body: str) -> Iterator[Part]:
    """Yield each line that only calls a function, without it."""
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
    """Yield every test of this folder that needs nothing but a world."""
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
        if set(inspect.signature(test).parameters) == {"world", *row}:
            yield Case(name, partial(test, **row))


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
        text = Text()
        fixed_time.ORIGINAL = partial(changed, change)  # type: ignore[assignment]
        scripts.source_of = text.source_of  # type: ignore[assignment]
        scripts.sha_of = partial(self._sha_of, text)  # type: ignore[assignment]
        try:
            case.run(world=World(self.client, f"m{uuid4().hex[:8]}", text))  # type: ignore[call-arg]
        except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - any failure tells it
            return f"{type(failure).__name__}: {failure}"
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
    with TemporaryDirectory() as folder:
        round_ = Round(Path(folder))
        try:
            _run(round_, wanted or every)
        finally:
            round_.close()


def _run(round_: Round, wanted: Sequence[str]) -> None:
    callers: dict[str, list[Case]] = {}
    for case in cases():
        round_.called.clear()
        if failure := round_.fails(case, None):
            sys.exit(f"{case.name} fails without a change: {failure}")
        for script in round_.called:
            callers.setdefault(script, []).append(case)
    round_.clear()
    made = survived = 0
    for file in wanted:
        users = [script for script in callers if uses(file, script)]
        chosen = list({id(case): case for script in users for case in callers[script]}.values())
        for change in changes_of(file):
            made += 1
            if _survives(round_, change, chosen):
                survived += 1
                with suppress(BrokenPipeError):
                    print(_line(change), flush=True)  # noqa: T201 - the answer of the command
    print(f"{made} changes, {survived} survived")  # noqa: T201


def _survives(round_: Round, change: Change, chosen: list[Case]) -> bool:
    found = next((case for case in chosen if round_.fails(case, change)), None)
    round_.clear()
    if found is None:
        return True
    # A test that missed one change will often miss the next one of the same script.
    chosen.remove(found)
    chosen.insert(0, found)
    return False


def _line(change: Change) -> str:
    new = change.new or "nothing"
    return f"{change.file}.lua:{change.line}: {' '.join(change.old.split())} -> {new}"


if __name__ == "__main__":
    main(sys.argv[1:])

"""Which fields of its data a step has set when it returns a state, read from its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Fields = frozenset[str]


@dataclass(frozen=True, slots=True)
class SetBy:
    """The fields that may be set at a place of a function, and those that are whatever happens."""

    may: Fields = frozenset()
    must: Fields = frozenset()

    def after(self, names: Fields) -> SetBy:
        """Return what is set when these fields are set as well."""
        return SetBy(self.may | names, self.must | names)

    def within(self, names: Fields) -> SetBy:
        """Return what is set where these fields may be set by then."""
        return SetBy(self.may | names, self.must)

    def among(self, known: Fields) -> SetBy:
        """Return what is set of the fields that are known."""
        return SetBy(self.may & known, self.must & known)


def set_before(function: Any, targets: Collection[str], known: Fields) -> dict[str, SetBy]:
    """Return for each target of a step which of the known fields are set when it is returned.

    If the source cannot be read, or returns anything but texts, all are set before each target.
    """
    inner = inspect.unwrap(function)
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(inner))).body
        reading = _Reading(next(iter(inspect.signature(inner).parameters)))
    except (OSError, SyntaxError, TypeError, ValueError, StopIteration):
        return dict.fromkeys(targets, SetBy(known, known))
    reading.block(getattr(definition, "body", []), SetBy())
    if not reading.is_readable or {*targets} - {*reading.found}:
        return dict.fromkeys(targets, SetBy(known, known))
    return {target: reading.found[target].among(known) for target in targets}


class _Reading:
    """Follows the statements of a step, with what is set by then. None: nothing comes after it."""

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter
        self.found: dict[str, SetBy] = {}
        self.is_readable = True

    def block(self, body: Sequence[ast.stmt], before: SetBy | None) -> SetBy | None:
        """Return what is set after these statements."""
        for statement in body:
            if before is None:
                return None
            before = self._after(statement, before)
        return before

    def _after(self, statement: ast.stmt, before: SetBy) -> SetBy | None:
        end: SetBy | None = before
        match statement:
            case ast.Return():
                self._returned(statement.value, before)
                end = None
            case ast.Raise() | ast.Continue() | ast.Break():
                end = None
            case ast.If():
                ways = (statement.body, statement.orelse)
                end = _either([self.block(way, before) for way in ways])
            case ast.With() | ast.AsyncWith():
                end = self.block(statement.body, before)
            case ast.Try() | ast.TryStar():
                end = self._tried(statement, before)
            case ast.For() | ast.AsyncFor() | ast.While():
                inside = before.within(self._set_in([statement]))
                self.block(statement.body, inside)
                end = _either([inside, self.block(statement.orelse, inside)])
            case ast.Match():
                end = _either([before, *(self.block(one.body, before) for one in statement.cases)])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass  # what is written in there is done elsewhere, if it is done
            case _:
                end = before.after(self._set_in([statement]))
        return end

    def _tried(self, statement: ast.Try | ast.TryStar, before: SetBy) -> SetBy | None:
        inside = before.within(self._set_in(statement.body))
        ends = [self.block([*statement.body, *statement.orelse], before)]
        ends += [self.block(one.body, inside) for one in statement.handlers]
        return self.block(statement.finalbody, _either(ends))

    def _returned(self, value: ast.expr | None, now: SetBy) -> None:
        match value:
            case ast.IfExp():
                self._returned(value.body, now)
                self._returned(value.orelse, now)
            case ast.Constant(value=str(target)):
                self.found[target] = _either([now, self.found.get(target)]) or now
            case _:
                self.is_readable = False

    def _set_in(self, statements: Iterable[ast.stmt]) -> Fields:
        return frozenset(
            node.attr
            for statement in statements
            for node in ast.walk(statement)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.parameter
        )


def _either(ends: Iterable[SetBy | None]) -> SetBy | None:
    """Return what is set after one of several ways, of which those that end are None."""
    found = [end for end in ends if end is not None]
    if not found:
        return None
    may = frozenset[str]().union(*(one.may for one in found))
    return SetBy(may, found[0].must.intersection(*(one.must for one in found)))

"""How the values of settings are read from variables: times, names, pairs and numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from interlock.kernel.payload import Word

Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]
HIDDEN = "hidden"  # of a setting that names what commands of agents must not see


def names_in(value: object) -> object:
    """Read `name,name`."""
    if not isinstance(value, str):
        return value
    return [name for name in map(str.strip, value.split(",")) if name]


Names = Annotated[tuple[str, ...], BeforeValidator(names_in)]
Words = Annotated[tuple[Word, ...], BeforeValidator(names_in)]


def pairs_of(wanted: str) -> BeforeValidator:
    """Return what reads pairs like `wanted`: `tier=model,tier=model`."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [pair.partition("=") for pair in value.split(",")]
        if not all(name and meant for name, _, meant in pairs):
            raise ValueError(f"write {wanted}, several separated by commas")
        return {name.strip(): meant.strip() for name, _, meant in pairs}

    return BeforeValidator(read)


def rows_of(wanted: str) -> BeforeValidator:
    """Return what reads rows like `wanted`: `model=input/output,...`."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        found: dict[str, tuple[str, str]] = {}
        for row in value.split(","):
            name, _, pair = row.strip().rpartition("=")
            first, _, second = pair.partition("/")
            if not (name and first and second):
                raise ValueError(f"write {wanted}, several separated by commas")
            found[name] = (first, second)
        return found

    return BeforeValidator(read)


def numbers_of(wanted: str, least: int) -> BeforeValidator:
    """Return what reads whole numbers like `wanted`, `queue=slots`, each at least `least`."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [pair.strip().partition("=") for pair in value.split(",")]
        if not all(n and count.isdecimal() and int(count) >= least for n, _, count in pairs):
            raise ValueError(f"write {wanted} with at least {least}, several separated by commas")
        return {name: int(count) for name, _, count in pairs}

    return BeforeValidator(read)

"""The modules and MCP servers that a deployment adds to Interlock, read from its setting."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from interlock.kernel.errors import KernelError
from interlock.workers.specs.module import (
    NoModuleError,
    import_named,
    is_module_name,
    names_in,
)

_TABLES = ("module", "mcp")


class ExtensionError(KernelError):
    """INTERLOCK_CAPABILITIES, or a file or module that it names, is wrong. Correct it."""

    def __init__(self, where: str | Path, problem: str) -> None:
        super().__init__(f"{where}: {problem}")


@dataclass(frozen=True, slots=True)
class ServerTable:
    """One [[mcp]] table as it is written, with its file."""

    file: Path
    table: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Extensions:
    """The modules and MCP servers that a specification names, in its order, each once."""

    modules: tuple[ModuleType, ...]
    servers: tuple[ServerTable, ...]


def read_extensions(specification: str | None, root: Path = Path()) -> Extensions:
    """Read INTERLOCK_CAPABILITIES: module names and paths of .toml files, separated by commas.

    Relative paths and modules are found in the folder `root`. A file lists [[module]] tables
    (name = "package.module") and [[mcp]] tables. Raises ExtensionError; an error inside a module
    is raised as it is, with the line that raised it.
    """
    names: dict[str, str] = {}
    servers: list[ServerTable] = []
    for entry in names_in(specification or ""):
        if entry.endswith(".toml"):
            listed, found = _read_file(root / entry)
            names |= dict.fromkeys(listed, entry)
            servers += found
        else:
            names.setdefault(entry, "INTERLOCK_CAPABILITIES")
    modules = tuple(_load(name, where, root) for name, where in names.items())
    return Extensions(modules, tuple(servers))


def _read_file(path: Path) -> tuple[list[str], list[ServerTable]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExtensionError(path, f"cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExtensionError(path, f"is not TOML: {error}") from error
    if unknown := sorted(set(content) - set(_TABLES)):
        raise ExtensionError(path, f"has {unknown[0]!r}; it may have [[module]] and [[mcp]]")
    tables = {name: content.get(name, []) for name in _TABLES}
    for name, listed in tables.items():
        if not isinstance(listed, list) or not all(isinstance(table, dict) for table in listed):
            raise ExtensionError(path, f"write [[{name}]], with two brackets, for each {name}")
    return (
        [_module_name(path, table) for table in tables["module"]],
        [ServerTable(path.resolve(), table) for table in tables["mcp"]],
    )


def _module_name(path: Path, table: Mapping[str, Any]) -> str:
    name = table.get("name")
    if set(table) != {"name"} or not isinstance(name, str):
        raise ExtensionError(path, 'a [[module]] has one line, name = "package.module"')
    return name


def _load(name: str, where: str, root: Path) -> ModuleType:
    if not is_module_name(name):
        raise ExtensionError(where, f"{name!r} is neither the name of a module nor a .toml file")
    try:
        return import_named(name, root)
    except NoModuleError as refusal:
        raise ExtensionError(where, f"names the module {name!r}, but {refusal}") from refusal

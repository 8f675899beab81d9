"""The door for systems, `interlock.system`: what it has is explained, and is used."""

from __future__ import annotations

import ast
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import interlock.system

# Ours, and one that is written as another company would write it.
SYSTEMS = (Path("interlock/systems"), Path("tests/seventh/translating"))
AREAS = [
    import_module(f"interlock.system.{one.name}") for one in iter_modules(interlock.system.__path__)
]


def used(area: ModuleType) -> set[str]:
    """Return the names that systems import from a module of the door, or use as its attributes."""
    door, _, name = area.__name__.rpartition(".")
    found = set()
    for path in [path for folder in SYSTEMS for path in folder.rglob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        for node in imports:
            if node.module == area.__name__:
                found |= {alias.name for alias in node.names}
        if any(
            node.module == door and name in [one.name for one in node.names] for node in imports
        ):
            found |= {
                node.attr
                for node in nodes
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == name
            }
    return found


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.__name__.rpartition(".")[2])
def test_the_door_has_what_systems_use_and_no_more(area: ModuleType) -> None:
    assert set(area.__all__) == used(area)


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.__name__.rpartition(".")[2])
def test_each_class_and_function_of_the_door_is_explained(area: ModuleType) -> None:
    named = {name: getattr(area, name) for name in area.__all__}
    coded = {name: one for name, one in named.items() if isclass(one) or isfunction(one)}
    assert [name for name, one in coded.items() if not (one.__doc__ or "").strip()] == []

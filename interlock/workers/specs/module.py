"""Imports the modules that a person names in a setting."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class NoModuleError(ImportError):
    """There is no module of this name. The message says what a person can do."""


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a list, which are separated by commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def is_module_name(name: str) -> bool:
    """Whether a text can be the name of a module."""
    return _NAME.fullmatch(name) is not None


def import_named(name: str, root: Path) -> ModuleType:
    """Import a module that is installed or lies in the folder `root`. Raises NoModuleError.

    An error inside the module is raised as it is, with the line that raised it.
    """
    try:
        with _folder_first(root):
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NoModuleError(
            f"there is no {error.name!r} to import on this computer; "
            "install it, or name the folder that holds it: INTERLOCK_CAPABILITIES_ROOT"
        ) from error


@contextmanager
def _folder_first(root: Path) -> Iterator[None]:
    """Let an import find the modules of a folder, as `python -m` does with the current one."""
    folder = str(root.absolute())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)

"""The rig of a codon in a plan: what is copied and run in the workspace before it starts."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from interlock.system.files import Required, ValueKind
from interlock.systems.runs.plan.part import (
    OF_JSON,
    CommandSeconds,
    CommandText,
    PlanPart,
    written_form,
)
from interlock.systems.runs.plan.path import path_within

RIG_ITEMS_MAX = 100
_RIG = "`copy: {from: <path>, to: <path>}` or `command: {run: <command>}`"


class RigFolder(StrEnum):
    """The folder in which a rig's command runs: the workspace, or the last copy."""

    WORKSPACE = "workspace"
    COPIED = "copied"


def _inside(path: str, info: ValidationInfo) -> str:
    if info.context is None:
        return path
    path_within(info.context["workspace"], path)
    return PurePosixPath(path).as_posix()


def _path(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("write a path inside the workspace, like data/raw.csv")  # noqa: TRY004 - the file is wrong, not the code
    return value


RigPath = Annotated[
    str,
    Field(min_length=1, max_length=1_000),
    AfterValidator(_inside),
    ValueKind(_path),
]


class CopiedPaths(PlanPart):
    """What is copied, and where to; both paths are inside the workspace."""

    source: Annotated[RigPath, Field(alias="from"), Required("write what to copy: `from: <path>`")]
    target: Annotated[RigPath, Field(alias="to"), Required("write where to: `to: <path>`")]

    @model_validator(mode="after")
    def _are_apart(self, info: ValidationInfo) -> Self:
        if info.context is not None:
            source, target = (
                path_within(info.context["workspace"], path) for path in (self.source, self.target)
            )
            # The target is removed before the copy is made, and the source with it if it is inside.
            if source == target or source in target.parents or target in source.parents:
                paths = f"one of {self.source} and {self.target}"
                raise ValueError(f"{paths} is inside the other; keep them apart")
        return self


class RigCopy(CopiedPaths):
    """A file or folder to copy before a codon starts; both paths are inside the workspace."""

    allow_failure: bool = False


class RunCommand(PlanPart):
    """A shell command, and where it runs."""

    run: Annotated[CommandText, Required("write what to run: `run: <command>`")]
    folder: Annotated[RigFolder, OF_JSON, Field(alias="in")] = RigFolder.WORKSPACE
    timeout_s: CommandSeconds = 600


class RigCommand(RunCommand):
    """A shell command to run before a codon starts."""

    allow_failure: bool = False


class RigForm(PlanPart):
    """An item of a rig as a file has it: one of a copy and a command."""

    copied: Annotated[CopiedPaths | None, Field(alias="copy")] = None
    command: RunCommand | None = None
    allow_failure: bool = False

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:
        """Return the problem of an item with exactly these fields, or an empty text."""
        if ("copied" in fields) != ("command" in fields):
            return ""
        return f"write one thing, {_RIG}"

    def stored(self) -> RigCopy | RigCommand:
        """Return the item as the plan stores it."""
        if self.copied:
            return RigCopy(**dict(self.copied), allow_failure=self.allow_failure)
        return RigCommand(**dict(self.command or ()), allow_failure=self.allow_failure)


RigItem = Annotated[
    RigCopy | RigCommand,
    written_form(RigForm, f"write one thing, {_RIG}", {}),
]

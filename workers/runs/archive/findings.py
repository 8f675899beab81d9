"""What can be wrong with the runs of a workspace, in words for people; it looks at nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto


class Fault(StrEnum):
    """The kinds of what can be wrong."""

    CORRUPTED_DATA = auto()
    MISSING_RUN = auto()
    INVALID_CODON = auto()
    MISSING_CHECKPOINT = auto()
    COST_MISMATCH = auto()
    ORPHANED_FOLDER = auto()


WARNINGS = (Fault.ORPHANED_FOLDER,)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, with which value, and what to do."""

    type: Fault
    where: str
    message: str

    def as_data(self) -> dict[str, str]:
        """Return it as a program reads it."""
        return {"type": str(self.type), "where": self.where, "message": self.message}


@dataclass(frozen=True, slots=True)
class Validation:
    """What is wrong with the runs of a workspace, and what was repaired before."""

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    repairs: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether all can be relied on; a warning costs nobody anything."""
        return not self.errors

    def as_data(self) -> dict[str, object]:
        """Return it as a program reads it."""
        return {
            "valid": self.valid,
            "errors": [one.as_data() for one in self.errors],
            "warnings": [one.as_data() for one in self.warnings],
            "repairs": list(self.repairs),
        }


def validation(found: Iterable[Finding], repairs: Iterable[str] = ()) -> Validation:
    """Sort findings into errors and warnings."""
    every = tuple(dict.fromkeys(found))
    errors = tuple(one for one in every if one.type not in WARNINGS)
    warnings = tuple(one for one in every if one.type in WARNINGS)
    return Validation(errors, warnings, tuple(repairs))

"""The result of a validation: faults in the runs of a workspace, by kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto


class Fault(StrEnum):
    """The kind of a fault."""

    CORRUPTED_DATA = auto()
    MISSING_RUN = auto()
    INVALID_CODON = auto()
    MISSING_CHECKPOINT = auto()
    COST_MISMATCH = auto()
    ORPHANED_FOLDER = auto()


WARNINGS = (Fault.ORPHANED_FOLDER,)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: its kind, where it is, and a message that says what to do."""

    type: Fault
    where: str
    message: str

    def as_data(self) -> dict[str, str]:
        """Return it as JSON."""
        return {"type": str(self.type), "where": self.where, "message": self.message}


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation: errors, warnings, and the repairs that were made before it."""

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    repairs: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether there are no errors; warnings do not count."""
        return not self.errors

    def as_data(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "valid": self.valid,
            "errors": [finding.as_data() for finding in self.errors],
            "warnings": [finding.as_data() for finding in self.warnings],
            "repairs": list(self.repairs),
        }


def validation(found: Iterable[Finding], repairs: Iterable[str] = ()) -> Validation:
    """Sort findings into errors and warnings."""
    distinct = tuple(dict.fromkeys(found))
    errors = tuple(finding for finding in distinct if finding.type not in WARNINGS)
    warnings = tuple(finding for finding in distinct if finding.type in WARNINGS)
    return Validation(errors, warnings, tuple(repairs))

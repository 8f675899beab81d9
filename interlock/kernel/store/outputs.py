"""The newest output of an agent, as its computer publishes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from interlock.kernel.store.publications import Fields, Publication

OUTPUT_KIND = "output"
PART_BYTES_MAX = 32_768  # of the output, and of the errors
OUTPUT, ERRORS = "output.log", "errors.log"  # the files of a run, in its folder


@dataclass(frozen=True, slots=True)
class OutputSource:
    """Where the output of one run of an agent is.

    `folder` is its work folder on the computer `host`, relative to the home of Interlock there, in
    which `output.log` and `errors.log` are.
    `run` is the number of the run, from 1: of a session, or of a claim.
    Each run has a folder of its own, so a run that was replaced never adds to the output of the
    next one.
    """

    host: str
    folder: str
    run: int = 1

    @property
    def publication(self) -> Publication:
        """Return what its computer is asked for."""
        return Publication(self.host, OUTPUT_KIND, self.folder)


@dataclass(frozen=True, slots=True)
class OutputPart:
    """The last bytes of an agent's output and of its errors, at most PART_BYTES_MAX of each.

    `end` and `errors_end` count all bytes up to the end of the part. `age_ms` is how long ago the
    agent printed something last.
    """

    output: bytes
    end: int
    errors: bytes
    errors_end: int
    age_ms: int

    def __post_init__(self) -> None:
        """Check the sizes: the store keeps no more."""
        assert max(len(self.output), len(self.errors)) <= PART_BYTES_MAX, "it was cut before"

    def fields(self) -> Fields:
        """Return the part as it is published."""
        return asdict(self)


def output_part(fields: Mapping[str, bytes]) -> OutputPart:
    """Return the part of an output that its computer published, from the fields it sent."""
    return OutputPart(
        output=fields["output"],
        end=int(fields["end"]),
        errors=fields["errors"],
        errors_end=int(fields["errors_end"]),
        age_ms=int(fields["age_ms"]),
    )

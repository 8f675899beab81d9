"""Passes the newest output of agents from their computers to those who look at it.

Who looks asks the computer. Its worker publishes the output for as long as somebody asks, so an
agent that nobody looks at costs the store nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, call_all

ASKED_MS = 5_000  # a question counts for so long; who still looks asks again before
ASKED_MAX = 100  # questions to one computer that count; the newest do
KEPT_MS = 120_000  # after its last publication
PART_BYTES_MAX = 32_768  # of the output, and of the errors


@dataclass(frozen=True, slots=True)
class OutputSource:
    """Where the output of one run of an agent is.

    `folder` is its work folder on the computer `host`, relative to the home of Interlock there.
    `run` is the number of the run, from 1: of a session, or of a claim.
    Each run has a folder of its own, so a run that was replaced never adds to the output of the
    next one.
    """

    host: str
    folder: str
    run: int = 1


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


@dataclass(frozen=True, slots=True)
class OutputAnswer:
    """What a computer has answered: when (ms by the store), and None if it has no such output."""

    at_ms: int
    part: OutputPart | None


@dataclass(frozen=True, slots=True)
class OutputLook:
    """One look at an agent's output.

    `asked_ms` is since when it has been asked for without a break. Times are ms by the store.
    """

    now_ms: int
    asked_ms: int
    answer: OutputAnswer | None


class Outputs:
    """Questions for output and the answers to them, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def ask(self, sources: Sequence[OutputSource]) -> list[OutputLook]:
        """Ask for the output of each source and return what was answered until now.

        Takes one round trip.
        """
        keys = self.keys
        calls = [
            (
                [
                    keys.outputs_asked(source.host),
                    keys.outputs_asked_since(source.host),
                    keys.output(source.host, source.folder),
                ],
                [source.folder, ASKED_MS, ASKED_MAX],
            )
            for source in sources
        ]
        return [_look(*reply) for reply in call_all(self.client, "ask_for_output", calls)]

    def asked(self, host: str) -> list[str]:
        """Return the folders of a computer whose output somebody looks at now."""
        found = call(self.client, "list_asked_outputs", [self.keys.outputs_asked(host)], [ASKED_MS])
        return [folder.decode() for folder in found]

    def publish(self, source: OutputSource, part: OutputPart | None) -> None:
        """Answer those who ask. None says that this worker has no such output.

        Another worker of the computer, with another home, may have it: its answer is not replaced.
        """
        fields = [] if part is None else _fields(part)
        key = self.keys.output(source.host, source.folder)
        call(self.client, "publish_output", [key], [KEPT_MS, *fields])


def _fields(part: OutputPart) -> list[str | int | bytes]:
    texts: list[str | int | bytes] = ["output", part.output, "errors", part.errors]
    numbers = {"end": part.end, "errors_end": part.errors_end, "age_ms": part.age_ms}
    return [*texts, *(one for pair in numbers.items() for one in pair)]


def _look(now_ms: bytes, asked_ms: bytes, pairs: list[bytes]) -> OutputLook:
    found = dict(zip(pairs[::2], pairs[1::2], strict=True))
    answer = OutputAnswer(int(found[b"at_ms"]), _part(found)) if found else None
    return OutputLook(int(now_ms), int(asked_ms), answer)


def _part(found: dict[bytes, bytes]) -> OutputPart | None:
    if b"end" not in found:
        return None
    return OutputPart(
        output=found[b"output"],
        end=int(found[b"end"]),
        errors=found[b"errors"],
        errors_end=int(found[b"errors_end"]),
        age_ms=int(found[b"age_ms"]),
    )

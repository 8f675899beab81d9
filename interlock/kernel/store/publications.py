"""Passes what only one computer has, such as a file, from there to those who look at it.

Who looks asks the computer. A worker there publishes it for as long as somebody asks, so what
nobody looks at costs the store nothing. What was published is dropped soon after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call, call_all

ASKED_MS = 5_000  # a question counts for so long; who still looks asks again before
ASKED_MAX = 2_000  # questions that count; the newest do
ASKED_OF_ONE_MAX = 100  # the same for one computer
KEPT_MS = 120_000  # after its last publication

Fields = Mapping[str, str | int | bytes]  # what is published, by names that its kind gives


@dataclass(frozen=True, slots=True)
class Publication:
    """What workers of the computer `host` can publish: its kind, and its name within the kind."""

    host: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """Return the name by which the computer publishes it."""
        return f"{self.kind} {self.name}"

    @property
    def question(self) -> str:
        """Return the name by which the computer is asked for it."""
        return f"{self.host} {self.key}"


@dataclass(frozen=True, slots=True)
class PublicationAnswer:
    """What a computer has answered: when (ms by the store), and None if it has no such thing."""

    at_ms: int
    fields: Mapping[str, bytes] | None


@dataclass(frozen=True, slots=True)
class PublicationLook:
    """One look at a publication.

    `asked_ms` is since when it has been asked for without a break. Times are ms by the store.
    """

    now_ms: int
    asked_ms: int
    answer: PublicationAnswer | None

    @property
    def silent_ms(self) -> int:
        """Return how long its computer has not answered although it was asked."""
        answered_ms = self.answer.at_ms if self.answer else 0
        return self.now_ms - max(self.asked_ms, answered_ms)


class Publications:
    """Questions for publications and the answers to them, over one client."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self.client, self.keys = client, keys

    def ask(self, publications: Sequence[Publication]) -> list[PublicationLook]:
        """Ask for each publication and return what was answered until now.

        Takes one round trip.
        """
        keys = self.keys
        calls = [
            (
                self._asked() | {"publication": keys.publication(each.host, each.key)},
                {"name": each.question, "counts_ms": ASKED_MS, "most": ASKED_MAX},
            )
            for each in publications
        ]
        return [_look(*reply) for reply in call_all(self.client, "ask_for_publication", calls)]

    def asked(self, host: str) -> list[Publication]:
        """Return the publications of a computer at which somebody looks now."""
        beginning = f"{host} "
        plan = {"beginning": beginning, "counts_ms": ASKED_MS, "most": ASKED_OF_ONE_MAX}
        found = call(self.client, "list_asked_publications", self._asked(), plan)
        names = (one.decode().removeprefix(beginning).partition(" ") for one in found)
        return [Publication(host, kind, name) for kind, _, name in names]

    def take(
        self, host: str, publications: Sequence[Publication], period_ms: int
    ) -> Publication | None:
        """Return the first of these that no worker of the computer has taken within a period.

        The caller makes and publishes it. None if all are taken.
        """
        if not publications:
            return None
        named = {"publications_taken": self.keys.publications_taken(host)}
        plan = {"period_ms": period_ms, "names": [each.key for each in publications]}
        found = call(self.client, "take_publication", named, plan)
        taken = {key.decode() for key in found}
        return next((each for each in publications if each.key in taken), None)

    def publish(self, publication: Publication, fields: Fields | None) -> None:
        """Answer those who ask. None says that this worker has no such thing.

        Another worker of the computer, with another home, may have it: its answer is not replaced.
        """
        named = {"publication": self.keys.publication(publication.host, publication.key)}
        pairs = [one for pair in (fields or {}).items() for one in pair]
        call(self.client, "publish", named, {"kept_ms": KEPT_MS, "pairs": pairs})

    def _asked(self) -> dict[str, str]:
        keys = self.keys
        return {
            "asked": keys.publications_asked(),
            "asked_since": keys.publications_asked_since(),
        }


def _look(now_ms: bytes, asked_ms: bytes, pairs: list[bytes]) -> PublicationLook:
    found = dict(zip(map(bytes.decode, pairs[::2]), pairs[1::2], strict=True))
    answer = None
    if found:
        answer = PublicationAnswer(int(found.pop("at_ms")), found or None)
    return PublicationLook(int(now_ms), int(asked_ms), answer)

"""Publishes what people look at and only this computer has, from one thread of a worker."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from interlock.kernel.errors import StoreError
from interlock.kernel.record import Record
from interlock.kernel.store.outputs import OUTPUT_KIND
from interlock.kernel.store.publications import Fields, Publication, Publications
from interlock.workers.engine.diff_publications import (
    DIFF_KIND,
    PERIOD_MS,
    DiffPublications,
)
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.record_diff import DiffSource
from interlock.workers.engine.refusals import Repeated
from interlock.workers.supervision.output_files import OutputFiles

log = logging.getLogger(__name__)

POLL_S = 0.5  # while somebody looks
IDLE_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class PublishedKind:
    """One kind of what a worker publishes.

    `read` gets a name and returns what is published under it, or None if this worker has no such
    thing. It is read at each poll. With a `period_ms` it takes long to read: then only one worker
    of the computer reads it, at most once in this period, and at each poll one name.
    """

    read: Callable[[str], Fields | None]
    period_ms: int = 0


class PublishingThread:
    """Publishes what one computer is asked for, until it is stopped."""

    def __init__(
        self,
        publications: Callable[[], Publications],
        host: str,
        kinds: Mapping[str, PublishedKind],
    ) -> None:
        self._publications, self._host, self._kinds = publications, host, kinds
        self._stopped = threading.Event()

    def start(self) -> None:
        """Publish from now on."""
        threading.Thread(target=self._repeat, name="publications", daemon=True).start()

    def stop(self) -> None:
        """Publish nothing more: the worker ends."""
        self._stopped.set()

    def publish(self) -> int:
        """Publish what is asked for; return how many publications that are. Raises StoreError."""
        publications = self._publications()
        asked = [each for each in publications.asked(self._host) if each.kind in self._kinds]
        by_period: dict[int, list[Publication]] = defaultdict(list)
        for each in asked:
            by_period[self._kinds[each.kind].period_ms].append(each)
        for each in by_period.pop(0, ()):
            self._publish(publications, each)
        for period_ms, slow in by_period.items():
            # One at each poll: the output of agents must not wait for all of them.
            if taken := publications.take(self._host, slow, period_ms):
                self._publish(publications, taken)
        return len(asked)

    def _publish(self, publications: Publications, publication: Publication) -> None:
        found = self._kinds[publication.kind].read(publication.name)
        publications.publish(publication, found)

    def _repeat(self) -> None:
        publishing, found = Repeated("the store", (StoreError,)), 0

        def publish() -> None:
            nonlocal found
            found = 0
            found = self.publish()

        while not self._stopped.wait(POLL_S if found else IDLE_POLL_S):
            try:
                publishing(publish)
            except Exception:
                # Without this thread nobody would see the output of this computer's agents.
                log.exception("what people look at is not published this time")


def publishing_thread(
    dispatch: Dispatch, find_diff_source: Callable[[Record], DiffSource | None]
) -> PublishingThread:
    """Return the thread that publishes what the computer of these settings is asked for."""
    settings = dispatch.settings
    # A further kind needs its line here.
    kinds = {
        OUTPUT_KIND: PublishedKind(OutputFiles(settings).read),
        DIFF_KIND: PublishedKind(DiffPublications(dispatch, find_diff_source).read, PERIOD_MS),
    }
    return PublishingThread(
        lambda: Publications(dispatch.client, dispatch.keys), settings.host, kinds
    )

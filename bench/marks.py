"""The counts of a measured Celery worker, which it writes when it is ready and at its end."""

from __future__ import annotations

from celery.signals import worker_process_shutdown, worker_ready, worker_shutdown

from bench.bodies import Bodies


class Marks(Bodies):
    """The counts of one process, written when Celery reports that it is ready and that it ends."""

    def listen(self) -> None:
        """Write a file when Celery reports that this process is ready, and one when it ends."""

        @worker_ready.connect(weak=False)
        def ready(**_: object) -> None:
            self.ready()

        def ended(**_: object) -> None:
            self.ended()

        worker_process_shutdown.connect(ended, weak=False)
        worker_shutdown.connect(ended, weak=False)


MARKS = Marks()  # of this process

"""What a worker of another computer publishes, one poll after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.kernel.record import Record
from interlock.kernel.store.outputs import OutputSource
from interlock.workers.client import Client
from interlock.workers.engine.agent_output import AgentOutput, look_at
from interlock.workers.engine.diff_calls import find_diff_source
from interlock.workers.engine.record_diff import DiffSource
from interlock.workers.supervision.publishing import publishing_thread


@dataclass
class Published:
    """A computer, whose worker publishes what it is asked for when the test says so."""

    client: Client
    home: Path
    host: str
    find_source: Callable[[Record], DiffSource | None] = find_diff_source

    def __post_init__(self) -> None:
        settings = self.client.settings.model_copy(update={"home": self.home, "host": self.host})
        self.publisher = publishing_thread(Client(settings).dispatch, self.find_source)

    def prints(self, folder: str, output: str, errors: str = "") -> OutputSource:
        """Write what an agent prints in all, before it is published."""
        place = self.home / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "output.log").write_text(output, "utf-8")
        (place / "errors.log").write_text(errors, "utf-8")
        return OutputSource(self.host, folder)

    def printed(self, folder: str, output: str, errors: str = "") -> OutputSource:
        """Write what an agent prints in all, and publish it to one who looks."""
        source = self.prints(folder, output, errors)
        self.look(folder)
        return source

    def look(self, folder: str) -> AgentOutput:
        """Ask for an output, let the worker answer, and look at the answer."""
        source = {"": OutputSource(self.host, folder)}
        look_at(self.client.dispatch, source)
        self.publisher.publish()
        return look_at(self.client.dispatch, source)[""]

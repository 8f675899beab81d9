"""A supervisor whose home was deleted ends without a report, and stops what it shows in Flower."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from interlock.kernel.store.leases import Lease
from interlock.workers.supervision.leased_process import FolderDeletedError
from interlock.workers.supervision.supervisor import Supervisor


class FailingSupervisor(Supervisor):
    """A supervisor of no lease, whose run ends with an error."""

    def __init__(self, error: Exception) -> None:
        self.error, self.closed = error, list[bool]()
        self.events: Any = SimpleNamespace(close=lambda: self.closed.append(True))
        self._adopted = list[Lease]()

    def run(self) -> None:
        raise self.error


def test_a_supervisor_ends_silently_when_its_work_folder_is_deleted() -> None:
    supervisor = FailingSupervisor(FolderDeletedError())
    supervisor.run_to_end()
    assert supervisor.closed == [True]


def test_any_other_error_of_a_supervisor_is_raised() -> None:
    supervisor = FailingSupervisor(OSError("the disk is full"))
    with pytest.raises(OSError, match="the disk is full"):
        supervisor.run_to_end()
    assert supervisor.closed == [True]

"""Gives a sweep that a test runs by itself the records that a worker gives it."""

from __future__ import annotations

from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.records import Records, component


def sweeping(dispatch: Dispatch) -> Records:
    """Return the records as a sweep reads and changes them."""
    return component(dispatch, "test")

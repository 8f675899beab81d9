"""Opens the store of a deployment for one process; the error says what to do if none answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from interlock.kernel.errors import StoreDeniedError, StoreDownError
from interlock.kernel.store.connect import greet, open_store, refuse_unsafe
from interlock.kernel.store.format import refuse_another_format, refuse_changed_format
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, guard

HINT = " (is its address right, and does it run? `interlock up` starts a store here)"


def open_safe_store(url: str, keys: Keys, *, connections_max: int, patient: bool) -> Client:
    """Open the store at an address, before anything is written to it.

    Raises StoreMisconfiguredError for one that may drop data, or that has another format. Once
    that changes, the client writes nothing more.
    """
    client = open_store_of_any_format(url, connections_max=connections_max, patient=patient)
    refuse_another_format(client, keys)
    guard(client, partial(refuse_changed_format, keys=keys))
    return client


def open_store_of_any_format(
    url: str, *, connections_max: int = 4, patient: bool = False
) -> Client:
    """Open the store at an address, to migrate it. Raises StoreMisconfiguredError."""
    client = open_store(url, connections_max=connections_max, patient=patient)
    with _hint():
        refuse_unsafe(client)
    return client


def greet_store(url: str) -> None:
    """Raise a StoreError if no store answers in two seconds: a person does not wait longer."""
    with _hint():
        greet(url)


@contextmanager
def _hint() -> Iterator[None]:
    try:
        yield
    except StoreDeniedError:
        raise
    except StoreDownError as refusal:
        raise StoreDownError(f"{refusal}{HINT}") from refusal

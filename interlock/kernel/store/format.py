"""The format of a store: the keys and fields that records and indexes have in its partitions."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import version

from interlock.kernel.errors import (
    StoreDeniedError,
    StoreFormatError,
    StoreMisconfiguredError,
    StoreReadOnlyError,
)
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call_all, read, read_all

FORMAT = 4
# What a partition notes: the version is the one of Interlock that has written its format first.
OF_FORMAT = ("format", "partitions", "version")
OF_TESTS = "testing"  # in place of a number: the times in such a store are those of a test


@cache
def release() -> str:
    """Return the version of this code, which a store that it has written asks for."""
    return version("interlock")


def refuse_another_format(client: Client, keys: Keys) -> None:
    """Raise StoreFormatError if a partition has another format; note ours where none is noted.

    One round trip where every partition has the format of this version, two where one has none.
    """
    names = [keys.meta(partition) for partition in range(PARTITIONS)]
    commands = [("HMGET", name, *OF_FORMAT) for name in names]
    unnoted: list[str] = []
    for name, found in zip(names, read_all(client, commands), strict=True):
        if found[0] is not None:
            refuse_format(keys.prefix, *found)
        if None in found:
            unnoted.append(name)
    if not unnoted:
        return
    # A process that may not write notes none: it cannot create a record of our format either.
    with suppress(StoreDeniedError, StoreReadOnlyError):
        plan = {"format": str(FORMAT), "partitions": PARTITIONS, "version": release()}
        calls = [({"meta": name}, plan) for name in unnoted]
        for found in call_all(client, "note_format", calls):
            refuse_format(keys.prefix, *found)


def refuse_changed_format(client: Client, keys: Keys) -> None:
    """Raise StoreFormatError if the format has changed since the store was opened.

    One partition is read: a migration marks all before it writes to any.
    """
    found = read(client, "HMGET", keys.meta(0), *OF_FORMAT)
    if found[0] is not None:
        refuse_format(keys.prefix, *found)


def refuse_format(prefix: str, written: bytes, partitions: bytes, version: bytes | None) -> None:
    """Raise StoreFormatError if a partition was written in another format than ours.

    `version` is the one of Interlock that wrote it. Raises StoreMisconfiguredError for a store that
    a test has started.
    """
    if written == OF_TESTS.encode():
        raise StoreMisconfiguredError(
            f"the store with the prefix {prefix!r} is one of a test, which sets its time: only the"
            " test that has started it may use it; name another one in INTERLOCK_STORE_URL"
        )
    found = (int(written), int(partitions))
    if found != (FORMAT, PARTITIONS):
        raise StoreFormatError(prefix, found, (FORMAT, PARTITIONS), text_of(version))


def text_of(version: bytes | None) -> str:
    """Return the version that a partition notes; '' where it notes none."""
    return (version or b"").decode()

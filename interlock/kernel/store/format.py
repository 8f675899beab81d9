"""The format of a store: the keys and fields that records and indexes have in its partitions."""

from __future__ import annotations

from contextlib import suppress

from interlock.kernel.errors import StoreDeniedError, StoreFormatError, StoreReadOnlyError
from interlock.kernel.record import PARTITIONS
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call_all, read_all

FORMAT = 4


def refuse_another_format(client: Client, keys: Keys) -> None:
    """Raise StoreFormatError if a partition has another format; note ours where none is noted.

    One round trip where every partition has the format of this version, two where one has none.
    """
    names = [keys.meta(partition) for partition in range(PARTITIONS)]
    commands = [("HMGET", name, "format", "partitions") for name in names]
    unnoted: list[str] = []
    for name, found in zip(names, read_all(client, commands), strict=True):
        if found[0] is None:
            unnoted.append(name)
        else:
            refuse_format(keys.prefix, *found)
    if not unnoted:
        return
    # A process that may not write notes none: it cannot create a record of our format either.
    with suppress(StoreDeniedError, StoreReadOnlyError):
        calls = [([name], [FORMAT, PARTITIONS]) for name in unnoted]
        for found in call_all(client, "note_format", calls):
            refuse_format(keys.prefix, *found)


def refuse_format(prefix: str, written: bytes, partitions: bytes) -> None:
    """Raise StoreFormatError if a partition was written in another format than ours."""
    if (int(written), int(partitions)) != (FORMAT, PARTITIONS):
        raise StoreFormatError(prefix, (int(written), int(partitions)), (FORMAT, PARTITIONS))

"""Divides new records into batches, each of which one call of the API takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.remote.connection import BODY_BYTES_MAX, encoded

RECORDS_MAX = 100  # that the API creates within one call; it answers after the last


def batches(records: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the bodies of new records in their order, in lists of at most RECORDS_MAX.

    One that no batch takes, as it is too large or no JSON, is a list by itself: a call of its own
    says what is wrong with it.
    """
    batch: list[Mapping[str, Any]] = []
    filled = 0
    for record in records:
        size = _size(record)
        if batch and (len(batch) == RECORDS_MAX or filled + size > BODY_BYTES_MAX):
            yield batch
            batch, filled = [], 0
        batch.append(record)
        filled += size
    if batch:
        yield batch


def _size(record: Mapping[str, Any]) -> int:
    try:
        return len(encoded({"records": [record]}))
    except InvalidPayloadError:
        return BODY_BYTES_MAX

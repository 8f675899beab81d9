"""The plugin of pytest: the fixtures `kit` and `interlock_store`. It imports nothing else early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # a project that does not use the fixtures pays for no engine
    from interlock.testing.kit import Kit
    from interlock.testing.store import KitStore


@pytest.fixture(scope="session")
def interlock_store() -> Iterator[KitStore]:
    """Return the store that all tests of this process share; each kit has its own prefix in it."""
    from interlock.testing.store import KitStore  # noqa: PLC0415 - only where it is used

    with KitStore() as store:
        yield store


@pytest.fixture
def kit(interlock_store: KitStore) -> Iterator[Callable[..., Kit[Any]]]:
    """Return what puts workflows to work in a test; their records are deleted after it."""
    from interlock.testing.kit import Kit  # noqa: PLC0415 - as above

    with ExitStack() as made:

        def start(flow: Any, *others: Any, settings: Mapping[str, str] | None = None) -> Kit[Any]:
            kit = Kit(flow, *others, store=interlock_store, settings=settings)
            return made.enter_context(kit)

        yield start

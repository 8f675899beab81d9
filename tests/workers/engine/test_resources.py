"""Resources: each opener is called once in a process, and a failed one is called again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock.workers.config import Settings, read_settings
from interlock.workers.engine.resources import Resources
from interlock.workers.systems import openers


def test_an_opener_is_called_once_with_the_settings() -> None:
    opened: list[Settings] = []
    settings = read_settings({})
    resources = Resources(settings)

    def opener(given: Settings) -> object:
        opened.append(given)
        return object()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: resources.get(opener), range(32)))

    assert len(found) == 1
    assert opened == [settings]


def test_a_resource_may_be_none() -> None:
    calls: list[Settings] = []
    resources = Resources(read_settings({}))

    assert resources.get(calls.append) is None
    assert resources.get(calls.append) is None
    assert len(calls) == 1


def test_a_failed_opener_is_called_again() -> None:
    resources = Resources(read_settings({}))
    failures = [ValueError("no")]

    def opener(_: Settings) -> str:
        if failures:
            raise failures.pop()
        return "open"

    with pytest.raises(ValueError, match="no"):
        resources.get(opener)
    assert resources.get(opener) == "open"


def test_every_opener_of_a_system_opens_with_the_default_settings() -> None:
    settings = read_settings({})
    resources = Resources(settings)

    named = list(openers())
    assert len(set(named)) == len(named), "each is called once"
    for opener in named:
        resources.get(opener)

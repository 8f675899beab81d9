"""The tests of docs/testing.md: each runs as it stands there."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest
from refund import Refund, refund

from interlock.testing import Kit

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
PROGRAM = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
TESTS = re.findall(r"^def (test_\w+)", PROGRAM, re.MULTILINE)


@pytest.mark.parametrize("name", TESTS)
def test_a_test_of_the_page_passes(name: str, request: pytest.FixtureRequest, path: Path) -> None:
    page = run_page(path)

    test = page[name]

    test(*map(request.getfixturevalue, inspect.signature(test).parameters))


def test_the_page_has_a_state_machine(path: Path) -> None:
    assert issubclass(run_page(path)["TestRefund"], TestCase)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with the program of the page: an exploration reads the source of its steps."""
    written = tmp_path / "page.py"
    written.write_text(PROGRAM, "utf-8")
    return written


def run_page(path: Path) -> dict[str, Any]:
    return runpy.run_path(str(path))


def test_a_kit_starts_a_store_of_its_own() -> None:
    with Kit(refund) as refunds:
        refunds.submit(Refund(order="o-1", cents=0))
        assert refunds.run().state == "failed"

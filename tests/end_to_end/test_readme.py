"""What the README shows a producer is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery

from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.house import ROOT, House

BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
TYPED, PLAIN = BLOCKS
IMPORTS = ("from celery import Celery",)


@pytest.fixture
def house(new_house: NewHouse, tmp_path: Path) -> House:
    return new_house(
        INTERLOCK_MODEL="embedded:wordllama",
        INTERLOCK_CAPABILITIES=str(ROOT / "examples" / "capabilities.toml"),
        INTERLOCK_DESK=str(tmp_path / "desk"),
    )


def test_the_producer_of_the_readme_brings_its_request_to_an_end(
    house: House, tmp_path: Path
) -> None:
    house.full()

    alone([TYPED], cwd=str(ROOT), environment={**os.environ, **house.environment})

    assert house.ends("mail-1042")[0].state == "done"
    assert "dentist" in (tmp_path / "desk" / "todo.txt").read_text()


def test_the_plain_message_of_the_readme_is_taken_in(house: House) -> None:
    matter = {"inciting": {"source": "mail", "title": "Call the dentist", "text": "On my list."}}
    queue = f"{house.prefix}.intake"
    filled = (
        PLAIN.replace("broker=...", f"broker={house.store_url!r}")
        .replace("{...}", repr(matter))
        .replace('"interlock.intake"', repr(queue))
    )

    alone([*IMPORTS, filled], cwd="/", environment=dict(os.environ))

    with Celery("reader", broker=house.store_url).connection_for_read() as connection:
        assert connection.default_channel.queue_declare(queue, passive=True).message_count == 1


def alone(lines: list[str], *, cwd: str, environment: dict[str, str]) -> None:
    """Run a program in a process of its own, and fail as it does."""
    command = [sys.executable, "-c", "\n".join(lines)]
    subprocess.run(command, cwd=cwd, env=environment, check=True, timeout=90)

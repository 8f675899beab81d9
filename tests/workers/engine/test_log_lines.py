"""The lines of a log: no text from outside forges one, or acts on the terminal that shows it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from io import StringIO
from threading import Thread
from typing import Any

import pytest
from celery import Celery
from celery.signals import after_setup_logger

from interlock.workers.engine import log_lines
from interlock.workers.engine.log_lines import log_about, set_up_log

HOSTILE = "coffee\x1b[2K\u202e\n[2026] INFO forged"


def test_a_log_line_of_any_text_is_one_visible_line() -> None:
    written = StringIO()
    logger = logging.getLogger(__name__)
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    set_up_log("console")
    after_setup_logger.send(sender=Celery(set_as_current=False), logger=logger)

    logger.warning("refused: %s", HOSTILE)
    try:
        int(HOSTILE)
    except ValueError:
        logger.exception("it failed")
    logger.removeHandler(handler)

    lines = written.getvalue().splitlines()
    assert lines[0] == r"WARNING refused: coffee\x1b[2K\u202e\n[2026] INFO forged"
    assert lines[1:3] == ["ERROR it failed", "  Traceback (most recent call last):"]
    assert all(re.match("WARNING|ERROR|  ", line) for line in lines)
    assert "\x1b" not in written.getvalue()


def lines_of(form: Any, write: Callable[[logging.Logger], None]) -> list[str]:
    """Return what a logger writes in a form, set up as Celery sets it up."""
    written = StringIO()
    logger = logging.getLogger(f"{__name__}.{form}")
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler(written)
    logger.addHandler(handler)
    set_up_log(form)
    after_setup_logger.send(sender=Celery(set_as_current=False), logger=logger)
    try:
        write(logger)
    finally:
        logger.removeHandler(handler)
        set_up_log("console")
    return written.getvalue().splitlines()


def test_a_line_says_which_effect_it_is_about() -> None:
    def write(logger: logging.Logger) -> None:
        with log_about(record="one", attempt=2):
            logger.warning("the store is slow")
        logger.warning("afterwards")

    assert lines_of("console", write) == [
        "the store is slow [attempt=2 record=one]",
        "afterwards",
    ]
    first, second = (json.loads(line) for line in lines_of("json", write))
    assert (first["event"], first["record"], first["attempt"]) == ("the store is slow", "one", 2)
    assert (first["level"], first["logger"]) == ("warning", f"{__name__}.json")
    assert first["timestamp"].endswith("Z")
    assert "record" not in second


def test_a_line_of_celery_about_a_message_says_which_effect_it_is_of() -> None:
    def write(logger: logging.Logger) -> None:
        for task_id in ("one/2:3.0:0123abcd", "5f0c"):
            data = {"id": task_id, "name": "thread.execution"}
            logger.info("received", extra={"data": data})

    effect, sweep = (json.loads(line) for line in lines_of("json", write))
    assert (effect["record"], effect["version"], effect["effect"]) == ("one/2", "3", "execution")
    assert "record" not in sweep


def test_every_thread_of_a_supervisor_names_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_ALWAYS", {})

    def write(logger: logging.Logger) -> None:
        log_lines.log_always_about(record="one")
        other = Thread(target=logger.warning, args=("leases are not renewed",))
        other.start()
        other.join()

    assert lines_of("console", write) == ["leases are not renewed [record=one]"]


def test_a_line_of_json_holds_any_text_and_its_traceback() -> None:
    def write(logger: logging.Logger) -> None:
        try:
            int(HOSTILE)
        except ValueError:
            logger.exception("refused: %s", HOSTILE)

    (line,) = lines_of("json", write)
    assert line.isascii()
    assert json.loads(line)["event"] == f"refused: {HOSTILE}"
    assert "Traceback" in json.loads(line)["exception"]


def test_tasks_that_an_effect_starts_log_about_it_too() -> None:
    async def start(logger: logging.Logger) -> None:
        with log_about(record="one"):
            started = asyncio.ensure_future(write_later(logger))
        await started

    async def write_later(logger: logging.Logger) -> None:
        logger.warning("later")

    assert lines_of("console", lambda logger: asyncio.run(start(logger))) == ["later [record=one]"]

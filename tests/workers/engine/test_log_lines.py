"""The lines of a log: no text from outside forges one, or acts on the terminal that shows it."""

from __future__ import annotations

import logging
import re
from io import StringIO

from celery import Celery
from celery.signals import after_setup_logger

from interlock.workers.engine.log_lines import make_log_visible

HOSTILE = "coffee\x1b[2K\u202e\n[2026] INFO forged"


def test_a_log_line_of_any_text_is_one_visible_line() -> None:
    written = StringIO()
    logger = logging.getLogger(__name__)
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    make_log_visible()
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

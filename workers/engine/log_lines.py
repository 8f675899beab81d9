"""Makes the lines of a process's log visible: text from outside forges no line and acts on none."""

from __future__ import annotations

import logging
import textwrap
from typing import Any

from celery.signals import after_setup_logger, after_setup_task_logger

from interlock.workers.text import visible, visible_line

_FORMATTER = logging.Formatter()


class VisibleLines(logging.Filter):
    """Shows hidden characters as escapes, a message on one line, and a traceback indented."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a line of the log; it is never left out."""
        record.msg, record.args = visible_line(record.getMessage()), ()
        if isinstance(record.exc_info, tuple) and record.exc_info[0] and not record.exc_text:
            # A formatter writes this text instead of one of its own.
            text = _FORMATTER.formatException(record.exc_info)
            record.exc_text = textwrap.indent(visible(text), "  ")
        return True


def make_log_visible() -> None:
    """Let every handler of this process's log rewrite its lines, also those that Celery sets up."""
    for setup in (after_setup_logger, after_setup_task_logger):
        setup.connect(_add_filter, weak=False, dispatch_uid=f"{__name__}.{setup.name}")
    if logging.lastResort is not None:
        logging.lastResort.addFilter(_FILTER)


def _add_filter(logger: logging.Logger, **_: Any) -> None:
    for handler in logger.handlers:
        handler.addFilter(_FILTER)


_FILTER = VisibleLines()

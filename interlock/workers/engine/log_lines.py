"""The lines of a process's log: for people, or as JSON; text from outside forges none.

A line that is written while an effect is performed, or by a supervisor, says which effect of which
record it is about. In JSON, a line of Celery about the message of an effect does so as well; for
people it shows the id of the effect.
"""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from celery.signals import after_setup_logger, after_setup_task_logger
from structlog.contextvars import bound_contextvars, get_contextvars

from interlock.kernel.errors import InvalidIdError
from interlock.kernel.record import split_key
from interlock.workers.config import LogFormat
from interlock.workers.text import visible, visible_line

_FORMATTER = logging.Formatter()
_ALWAYS: dict[str, object] = {}  # the fields of each line of this process


class VisibleLines(logging.Filter):
    """Shows hidden characters as escapes, a message on one line, and a traceback indented."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a line of the log; it is never left out."""
        about = " ".join(f"{name}={value}" for name, value in sorted(_about().items()))
        line = visible_line(record.getMessage())
        record.msg, record.args = f"{line} [{visible_line(about)}]" if about else line, ()
        if isinstance(record.exc_info, tuple) and record.exc_info[0] and not record.exc_text:
            # A formatter writes this text instead of one of its own.
            text = _FORMATTER.formatException(record.exc_info)
            record.exc_text = textwrap.indent(visible(text), "  ")
        return True


_VISIBLE = VisibleLines()


def set_up_log(form: LogFormat) -> None:
    """Let every handler of this process's log write lines so, also those that Celery sets up."""

    def set_up(logger: logging.Logger, **_: Any) -> None:
        for handler in logger.handlers:
            _set_up(handler, form)

    for setup in (after_setup_logger, after_setup_task_logger):
        of_this = f"{__name__}.{setup.name}"
        setup.disconnect(dispatch_uid=of_this)
        setup.connect(set_up, weak=False, dispatch_uid=of_this)
    if logging.lastResort is not None:
        _set_up(logging.lastResort, form)


def log_as_json() -> None:
    """Write all lines of this process to stderr, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    _set_up(handler, "json")
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


def log_always_about(**fields: object) -> None:
    """Add these fields to each line of this process from now on, whichever thread logs it."""
    _ALWAYS.update(fields)


@contextmanager
def log_about(**fields: object) -> Iterator[None]:
    """Add these fields to each line that is logged in the block, or by tasks of asyncio from it."""
    with bound_contextvars(**fields):
        yield


def _set_up(handler: logging.Handler, form: LogFormat) -> None:
    if form == "json":
        handler.setFormatter(_json_formatter())
    else:
        handler.addFilter(_VISIBLE)


def _about() -> dict[str, Any]:
    """Return the fields that say which effect a line is about that is written now."""
    return {**_ALWAYS, **get_contextvars()}


def _message_fields(task: Any) -> dict[str, str]:
    """Return the fields of a line of Celery about a task, if that is the message of an effect."""
    if not isinstance(task, Mapping):
        return {}
    key, name = str(task.get("id")), str(task.get("name"))
    try:
        record_id, suffix = split_key(key)
    except InvalidIdError:
        return {}
    version, effect = suffix.partition(".")[0], name.partition(".")[2]
    return {"record": record_id, "version": version, "effect": effect}


def _merge_about(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**_message_fields(getattr(line["_record"], "data", None)), **_about(), **line}


def _json_formatter() -> logging.Formatter:
    """Return a formatter that writes one object of JSON a line, in ASCII."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            _merge_about,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )

"""Finds the pages of the systems, and what of them a viewer may see. It names no system."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from interlock.kernel.errors import CallError, StoreError
from interlock.kernel.record import Record
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.console.forms import FormField, fields_of
from interlock.workers.supervision.page import with_live_parts
from interlock.workers.systems import pages
from interlock.workers.terminal.page import Section, Sentence, SystemPage

log = logging.getLogger(__name__)

FAILED = "This part cannot be shown. The log of this server has the error."
NEEDED: Mapping[str, Act] = {"submit": Act.SUBMIT, "operate": Act.OPERATE}


class NoPageError(CallError):
    """No system has this page, or it has no such button; or the viewer may not see it."""


def pages_of(client: Client) -> dict[str, SystemPage]:
    """Return the pages that a viewer may see, by the name of the system."""
    return {name: one for name, one in pages().items() if set(one.machines) <= set(client.machines)}


def page_of(client: Client, name: str) -> SystemPage:
    """Return one of these pages. Raises NoPageError."""
    seen = pages_of(client)
    if name not in seen:
        raise NoPageError(f"there is no page of {name!r}; there are: {', '.join(seen)}")
    return seen[name]


def panels_of(client: Client, record: Record, acts: frozenset[Act]) -> dict[str, Any]:
    """Return what the page of a record shows of its system, and what that takes to draw it."""
    for name, page in pages_of(client).items():
        if record.machine in page.panels:
            panel = page.panels[record.machine]
            try:
                sections = with_live_parts(client, panel(client, record))
            except StoreError:
                raise
            except Exception:
                # Every other part of the page of the record is shown all the same.
                log.exception("the panel of %s could not be shown", record.id)
                sections = [Section(page.title, [Sentence(FAILED, "bad")])]
            return {"panels": sections, "system": name, "offered": offered(page, acts)}
    return {"panels": list[Section](), "system": "", "offered": dict[str, list[FormField]]()}


def offered(page: SystemPage, acts: frozenset[Act]) -> dict[str, list[FormField]]:
    """Return the acts that a viewer may do, each with the fields of its form."""
    return {
        name: fields_of(act.takes.model_json_schema(), {}) if act.takes else []
        for name, act in page.acts.items()
        if NEEDED[act.needs] in acts
    }

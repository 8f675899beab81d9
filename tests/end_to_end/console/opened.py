"""Pages of a console that a browser opens for a person who has signed in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.console.sessions import COOKIE
from tests.end_to_end.browser import WITHIN_MS
from tests.workers.access.tokens import new_session
from tests.workers.api.serving import served

PHONE = ViewportSize(width=360, height=740)
# Keeps a page from renewing itself after some seconds: it only shows what it is sent.
ONLY_WHAT_IS_SENT = """
const later = window.setTimeout;
window.setTimeout = (act, ms, ...more) => later(act, ms >= 5000 ? 2 ** 31 - 1 : ms, ...more);
"""


@contextmanager
def console_of(interlock: Client, chromium: Browser) -> Iterator[str]:
    """Serve a console and give its address; in the end, close the pages, which hold connections."""
    with served(interlock, create_console) as url:
        yield url
        for context in chromium.contexts:
            context.close()


def open_page(
    chromium: Browser, interlock: Client, address: str, path: str = "/", **options: Any
) -> Page:
    """Open a page of the console in a browser of its own, whose person has signed in."""
    context = chromium.new_context(base_url=address, **options)
    name, session = f"{COOKIE}_{urlsplit(address).port}", new_session(interlock, Role.ADMIN)
    context.add_cookies([{"name": name, "value": session, "url": address}])
    page = new_page(context)
    page.goto(path)
    return page


def new_page(context: BrowserContext) -> Page:
    """Open an empty page, whose clicks and navigations may take WITHIN_MS."""
    page = context.new_page()
    page.set_default_timeout(WITHIN_MS)
    return page


def ready(page: Page) -> None:
    """Wait until a page takes answers: it does not in the moment after it was opened."""
    page.wait_for_load_state()
    page.wait_for_function(
        "() => getComputedStyle(document.querySelector('.card form button, .quick button'))"
        ".pointerEvents !== 'none'"
    )

"""A real browser for tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

# The one without windows does the same pages with half the processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
WITHIN_MS = 120_000


@contextmanager
def chromium_browser() -> Iterator[Browser]:
    """Run Chromium until the block ends. What is expected of a page may take WITHIN_MS."""
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()

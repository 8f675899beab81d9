"""The site of the documents, as `interlock docs` and the console serve it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient
from typer.testing import CliRunner

from interlock.workers.cli import app
from interlock.workers.console import docs, docs_site
from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import EmbeddedServer
from scripts import site
from tests.end_to_end.browser import chromium_browser
from tests.systems.threads.threads import client_of
from tests.workers.api.serving import served

PROGRAM = """
from functools import partial
from pathlib import Path
from interlock.workers.console import docs_site

docs_site.SITE = Path.cwd()
docs_site.serve_site(0, partial(print, flush=True))
"""


def test_the_console_shows_the_documents_with_a_search_and_loads_nothing_from_elsewhere(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (site, docs, docs_site):
        monkeypatch.setattr(module, "SITE", tmp_path / "site")
    assert site.main() == 0
    interlock = client_of(server.url, prefix)
    complaints, asked = [], []
    with served(interlock, create_console) as address, chromium_browser() as chromium:
        page = chromium.new_page()
        page.on("console", lambda line: complaints.append((line.type, line.text)))
        page.on("request", lambda request: asked.append(request.url))

        page.goto(f"{address}/docs/")
        page.get_by_role("button", name="Search").first.click()
        page.get_by_role("combobox", name="Search").fill("webhooks")
        page.get_by_role("listbox").get_by_role("option").first.click()

        expect(page).not_to_have_url(f"{address}/docs/")
    assert [text for kind, text in complaints if kind == "error"] == []
    assert [url for url in asked if not url.startswith((address, "data:"))] == []


def test_where_there_is_no_site_the_command_and_the_page_say_how_to_get_it(
    server: EmbeddedServer, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (docs, docs_site):
        monkeypatch.setattr(module, "SITE", tmp_path)

    said = CliRunner().invoke(app, ["docs"])
    with TestClient(create_console(client_of(server.url, prefix))) as browser:
        page = browser.get("/docs/")

    assert said.exit_code == 1
    assert page.status_code == 404
    assert all("`make docs` builds it" in text for text in (said.stderr, page.text))


def test_the_site_is_served_where_no_console_runs(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the site", "utf-8")
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout
        address = serving.stdout.readline().strip()
        with urlopen(address, timeout=60) as answer:  # noqa: S310 - of this test
            text = answer.read()
        serving.terminate()

    assert text == b"the site"

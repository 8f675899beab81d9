"""Makes the pictures of docs/console.md: `python -m tests.end_to_end.console.screenshots`.

It runs a deployment of its own with the requests of the demonstration, tasks and a graph, and needs
Chromium. With
`--review FOLDER` it draws every page in three widths, light and dark, to be looked at.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from interlock.kernel.store.saved_views import SavedView
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.console.app import create_console
from interlock.workers.console.sessions import COOKIE
from interlock.workers.jobs.client import Graphs
from interlock.workers.ops.demo import EXAMPLES, play
from interlock.workers.ops.deployment import Deployment
from tests.end_to_end.console.small_png import small_png
from tests.workers.access.tokens import new_token
from tests.workers.api.serving import served

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDE, PHONE = {"width": 1120, "height": 700}, {"width": 360, "height": 740}
REVIEWED = {
    "phone": PHONE,
    "desk": {"width": 1280, "height": 900},
    "wall": {"width": 2560, "height": 1440},
}
SIGNED_OUT = ("/login",)
CONSENT = "/records?q=state%3Aawaiting_confirmation&order=oldest"
# By the name of the picture: the address, and how its browser differs from a desk in the light.
PICTURES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "flow": ("/", {}),
    "flow_dark": ("/", {"color_scheme": "dark"}),
    "inbox": ("/inbox", {}),
    "inbox_phone": ("/inbox", {"viewport": PHONE}),
    "card": ("/inbox/01-printer-paper", {}),
    "card_phone": ("/inbox/01-printer-paper", {"viewport": PHONE}),
    "record": ("/records/06-free-some-space", {}),
    "records": (CONSENT, {}),
    "bulk": ("/bulk?q=state:awaiting_confirmation&verb=pause", {}),
    "fleet": ("/fleet", {}),
    "systems": ("/systems", {}),
    "threads": ("/systems/threads", {}),
    "tasks": ("/systems/tasks", {}),
    "jobs": ("/systems/jobs?graph=nightly", {}),
    "acts": ("/acts", {}),
    "tokens": ("/tokens", {}),
    "login": ("/login", {}),
}


def main() -> None:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--review", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="picture", help=", ".join(PICTURES))
    asked = parser.parse_args()
    chosen = {name: PICTURES[name] for name in asked.names or PICTURES}
    folder = asked.review or IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, deployment() as (address, token):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-lcd-text"]
        )
        blank = browser.new_page()
        for name, (place, options) in chosen.items():
            for suffix, view in _views(options, is_review=asked.review is not None):
                with opened(browser, address, token, place, view) as page:
                    picture = page.screenshot(full_page=bool(suffix))
                    path = folder / f"{name}{suffix}.png"
                    path.write_bytes(picture if suffix else small_png(blank, picture))


def _views(options: dict[str, Any], *, is_review: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the suffix of each picture of a page, and the options of its browser."""
    if not is_review:
        yield "", {"viewport": WIDE, **options}
        return
    if options:
        return
    for width, viewport in REVIEWED.items():
        for scheme in ("light", "dark"):
            yield f"-{width}-{scheme}", {"viewport": viewport, "color_scheme": scheme}


@contextmanager
def opened(
    browser: Browser, address: str, token: str, place: str, options: dict[str, Any]
) -> Iterator[Page]:
    """Open a page, in a browser whose person has signed in."""
    context = browser.new_context(base_url=address, **options)
    if place not in SIGNED_OUT:
        context.add_cookies([{"name": COOKIE, "value": token, "url": address}])
    page = context.new_page()
    page.goto(place)
    yield page
    context.close()


@contextmanager
def deployment() -> Iterator[tuple[str, str]]:
    """Run a deployment with the requests of the demonstration; give its address and a token."""
    with TemporaryDirectory() as folder:
        home, desk, inbox = (Path(folder) / name for name in ("home", "desk", "inbox"))
        shutil.copytree(EXAMPLES / "inbox", inbox)
        shutil.copytree(EXAMPLES / "papers", desk / "tray")
        os.environ["EXAMPLE_DESK"] = str(desk)
        settings = read_settings(
            {
                "INTERLOCK_HOME": str(home),
                "INTERLOCK_HOST": "desk",
                "INTERLOCK_CAPABILITIES": str(EXAMPLES / "capabilities.toml"),
                "INTERLOCK_SOURCES_ROOT": str(inbox),
            }
        )
        with Deployment(settings, pages=False) as running:
            interlock = Client(running.settings, actor="demo")
            play(interlock, inbox)
            submit_tasks_and_jobs(interlock)
            interlock.dispatch.saved_views.keep(SavedView("Waits for consent", CONSENT, "ann"))
            ann = Client(running.settings, actor="ann")
            ann.codes = ("as:operator",)
            ann.pause("13-passport", reason="the office is closed until Monday")
            ann.resume("13-passport")
            token = new_token(interlock, Role.ADMIN)
            with served(interlock, create_console) as address:
                yield address, token


def submit_tasks_and_jobs(interlock: Client) -> None:
    """Submit a task that is starved, and a graph that gets as far as it gets without a person."""
    task = {"title": "Say in the README how to install it", "depends_on": ["choose-a-name"]}
    interlock.submit(task, id="site/install", machine="task")
    graphs, command = Graphs(interlock), {"worker": {"command": "true"}}
    graphs.open("nightly", {"limits": {"iterations": 20}})
    steps: Mapping[str, dict[str, Any]] = {
        "fetch": {"auto_approve": True},
        "clean": {"auto_approve": True, "depends_on": ["nightly/fetch"]},
        "report": {"depends_on": ["nightly/clean"]},
        "publish": {"depends_on": ["nightly/report"]},
    }
    for name, fields in steps.items():
        graphs.create(f"nightly/{name}", {"phases": [command], **fields}, held=False)
    interlock.wait("nightly/report", timeout_s=60)


if __name__ == "__main__":
    main()

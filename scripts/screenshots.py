"""Makes the pictures of the documents: `python -m scripts.screenshots`.

It runs a deployment of its own with the requests of the demonstration and work of the other
systems, and needs Chromium. With `--review FOLDER` it draws every page at 1440 and 390 pixels,
light and dark, to be looked at.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.parse import quote, urlencode, urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from examples.clean_a_dataset.__main__ import WORKSPACE, answer, prepare
from examples.demo.__main__ import EXAMPLES, play
from examples.night_shift.__main__ import DONE_PERCENT, git, make_repository
from interlock.kernel.event import Note
from interlock.kernel.store.people import SavedView
from interlock.systems.jobs.client import Graphs
from interlock.systems.loops.client import Loops
from interlock.systems.runs.client import Runs
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.console.app import create_console
from interlock.workers.console.sessions import COOKIE
from interlock.workers.engine.answer_links import LIFETIME_S, PATH, AnswerLink
from interlock.workers.ops.deployment import Deployment
from scripts.small_png import small_png
from tests.waiting import until
from tests.workers.access.tokens import new_session
from tests.workers.api.serving import served

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE, PHONE = {"width": 1120, "height": 700}, {"width": 360, "height": 740}
REVIEWED = {"390": {"width": 390, "height": 844}, "1440": {"width": 1440, "height": 900}}
SIGNED_OUT = ("/login",)
CONSENT = "/records?q=state%3Aawaiting_confirmation&order=oldest"
WAIT_S = 90.0
AGENTS = {
    "smith": "You repair what the scout asks for.",
    "scout": "You run the tests, and ask the smith for repairs.",
}
TEST = "test_calculator.Calculating.test_add"
# By the name of the picture: the address, in which names in braces stand for what the deployment
# has, and how its browser differs from a desk in the light.
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
    "diff": ("/systems/tasks?diff=calculator/repair-add", {}),
    "agent": ("/systems/loops?agent=scout", {}),
    "run": ("/systems/runs?run={run}", {}),
    "answers": ("/answers?{several}", {}),
    "link_phone": ("{link}", {"viewport": PHONE}),
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
    folder = asked.review or IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-lcd-text"]
        )
        draw(browser, asked.names or PICTURES, folder, is_review=asked.review is not None)


def draw(browser: Browser, names: Iterable[str], folder: Path, *, is_review: bool) -> None:
    """Draw the pictures with these names into a folder, from a deployment of its own."""
    blank = browser.new_page()
    with deployment() as (address, session, places):
        for name in names:
            place, options = PICTURES[name]
            for suffix, view in _views(options, is_review=is_review):
                with opened(browser, address, session, place.format(**places), view) as page:
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
    browser: Browser, address: str, session: str, place: str, options: dict[str, Any]
) -> Iterator[Page]:
    """Open a page, in a browser whose person has signed in."""
    context = browser.new_context(base_url=address, **options)
    if place not in SIGNED_OUT:
        context.add_cookies(
            [{"name": f"{COOKIE}_{urlsplit(address).port}", "value": session, "url": address}]
        )
    page = context.new_page()
    page.goto(place)
    yield page
    context.close()


@contextmanager
def deployment() -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Run a deployment with work of all systems.

    Give its address, a session, and what stands in addresses for names in braces.
    """
    with TemporaryDirectory(prefix="desk-") as folder:
        home, desk, inbox = (Path(folder) / name for name in ("home", "desk", "inbox"))
        shutil.copytree(EXAMPLES / "inbox", inbox)
        shutil.copytree(EXAMPLES / "papers", desk / "tray")
        settings = read_settings(
            {
                "INTERLOCK_HOME": str(home),
                "INTERLOCK_HOST": "desk",
                "INTERLOCK_CAPABILITIES": str(EXAMPLES / "capabilities.toml"),
                "INTERLOCK_SOURCES_ROOT": str(inbox),
            }
        )
        # Agents and codons run with the same Python interpreter.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        state = str(Path(folder) / "state")  # the folder of worktrees, which a picture shows
        variables = {"EXAMPLE_DESK": str(desk), "PATH": path, "XDG_STATE_HOME": state}
        with patch.dict(os.environ, variables), Deployment(settings, pages=False) as running:
            interlock = Client(running.settings, actor="demo")
            play(interlock, inbox)
            submit_tasks_and_jobs(interlock)
            change_a_repository(interlock, Path(folder) / "calculator")
            places = {"run": quote(clean_a_dataset(interlock, Path(folder)), safe="")}
            places |= addresses_of_answers(interlock)
            interlock.dispatch.saved_views.keep(SavedView("Waits for consent", CONSENT, "ann"))
            ann = Client(running.settings, actor="ann")
            ann.codes = ("as:operator",)
            ann.pause("13-passport", reason="the office is closed until Monday")
            ann.resume("13-passport")
            session = new_session(interlock, Role.ADMIN)
            with served(interlock, create_console) as address:
                yield address, session, places


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


def change_a_repository(interlock: Client, repo: Path) -> None:
    """Let two long-lived agents repair a repository by mail, and a third for an approval."""
    make_repository(repo)
    shutil.copytree(EXAMPLES / "night_shift" / "agents", repo / "agents")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "Add two agents")
    task = {
        "title": "Let add() add",
        "text": "python3 -m unittest fails: add() subtracts.",
        "repo": str(repo),
        "agent": "sed -i 's/a - b/a + b/' calculator.py && echo add is repaired",
        "signals": [{"type": "test_passes", "value": f"python3 -m unittest -q {TEST}"}],
        "needs_approval": True,
    }
    interlock.submit(task, id="calculator/repair-add", machine="task")
    loops = Loops(interlock)
    for name, identity in AGENTS.items():
        options = {"identity": identity, "next": "on_mail"}
        loops.start(name, repo=repo, command=f"python3 agents/{name}.py", **options)
    until(lambda: _says_all_is_done(interlock), what="every test passes", within_s=WAIT_S)
    interlock.wait("calculator/repair-add", timeout_s=WAIT_S)


def _says_all_is_done(interlock: Client) -> bool:
    notes = [line for line in interlock.history("scout/1") if isinstance(line, Note)]
    return any(note.kind == "progress" and note.detail["percent"] == DONE_PERCENT for note in notes)


def clean_a_dataset(interlock: Client, folder: Path) -> str:
    """Let a run fail because a value is missing, add it, and run the rest; return the last run."""
    runs, workspace = Runs(interlock), folder / WORKSPACE
    prepare(folder)
    runs.wait_for_end(runs.start(folder / "plan.yaml", workspace).id, WAIT_S)
    answer(workspace)
    return runs.wait_for_end(runs.redo(workspace, "complete", as_is=True).id, WAIT_S).id


def addresses_of_answers(interlock: Client) -> dict[str, str]:
    """Return the query for an answer to several cards, and the path of a link that answers one."""
    named = ("01-printer-paper", "08-the-thing")
    cards = [card for one in named if (card := interlock.card(one))]
    several = {"choice": "approve", "proposal": [card.proposal for card in cards]}
    expires_s = interlock.now_ms() // 1_000 + LIFETIME_S
    link = AnswerLink(cards[0].record_id, cards[0].proposal, "approve", "ann", expires_s)
    return {
        "several": urlencode(several, doseq=True),
        "link": f"{PATH}/{link.token(interlock.dispatch.link_key)}",
    }


if __name__ == "__main__":
    main()

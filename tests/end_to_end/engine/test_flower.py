"""A real Flower shows each effect as a Celery task, with its true state and a readable name."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from playwright.sync_api import HttpCredentials, expect

from interlock.kernel.machines import MACHINES
from interlock.kernel.store.commands import EffectMessage
from interlock.systems.runs.client import Runs
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.gateways.server import free_port
from tests.end_to_end.browser import CHROMIUM, WITHIN_MS, chromium_browser
from tests.end_to_end.conftest import NewDeployment
from tests.end_to_end.deployment import Deployment, thread
from tests.end_to_end.loops.agents import Agents
from tests.end_to_end.threads.test_families import part, split
from tests.workers.api.serving import served

# As in a deployment: Flower reads the events.
VARIABLES = {"INTERLOCK_TASK_EVENTS": "1"}
# No other record waits for the end of these threads.
EFFECTS = {f"thread.{name}" for name in MACHINES["thread"].effects if name != "notification"}
# What the page with the list of tasks asks for.
LIST = "/tasks/datatable?draw=1&start=0&length=1000&order[0][column]=0&columns[0][data]=name"


@dataclass
class Flower:
    """The pages of a running Flower."""

    address: str

    def page(self, path: str) -> str:
        """Return a page, or '' while Flower starts."""
        try:
            answer = httpx.get(f"{self.address}{path}", auth=("me", "mine"), timeout=180)
        except httpx.TransportError:
            return ""
        return answer.raise_for_status().text

    def tasks(self, name: str = "", args: str = "") -> list[dict[str, Any]]:
        """Return the rows of its list that have this name and these arguments."""
        rows: list[dict[str, Any]] = json.loads(self.page(LIST) or '{"data": []}')["data"]
        return [row for row in rows if name in ("", row["name"]) and args in ("", row["args"])]

    def states(self, name: str, args: str) -> list[str]:
        """Return the states that it shows for the tasks of this name and these arguments."""
        return [str(row["state"]) for row in self.tasks(name, args)]


@contextmanager
def console_of(deployment: Deployment) -> Iterator[None]:
    """Serve the console of a deployment, and let its Flower know the address."""
    settings = deployment.client.settings.model_copy(update={"auth": "none"})
    with served(Client(settings), create_console) as address:
        deployment.variables["INTERLOCK_PUBLIC_URL"] = address
        yield


def flower_of(deployment: Deployment) -> Flower:
    """Start a worker, beat and Flower."""
    deployment.full()
    port = free_port()
    deployment.flower(port)
    flower = Flower(f"http://127.0.0.1:{port}")
    # Flower shows only tasks that run while it listens.
    workers = partial(flower.page, "/api/workers?refresh=true")
    deployment.sees(lambda: len(workers()) > 2, what="flower is up")
    return flower


@pytest.mark.slow(minutes=0.5)
def test_flower_shows_every_effect_with_its_true_state_and_a_readable_name(
    new_deployment: NewDeployment, tmp_path: Path
) -> None:
    # One test, because starting a deployment takes both cores for seconds. Each step has a name.
    cards = tmp_path / "cards"
    deployment = new_deployment(INTERLOCK_CARDS=str(cards))
    with console_of(deployment):
        flower = flower_of(deployment)
        nobody_reads_the_api_without_the_login(flower)
        an_effect_that_is_tried_again_is_a_retry(deployment, flower, cards)
        an_effect_that_failed_is_a_failure_and_stays_one(deployment, flower)
        an_effect_that_no_record_owes_is_revoked(deployment, flower)
        every_effect_of_a_thread_succeeds(deployment, flower)
        what_a_supervisor_holds_runs_until_its_end(deployment, flower, tmp_path)
        the_broker_page_has_every_queue(deployment, flower)
        what_flower_shows_leads_to_its_record(deployment, flower, tmp_path)
    log = deployment.processes[0].output
    assert "ERROR" not in log
    assert "Traceback" not in log


def nobody_reads_the_api_without_the_login(flower: Flower) -> None:
    assert httpx.get(f"{flower.address}/api/tasks", timeout=180).status_code == 401
    assert json.loads(flower.page("/api/tasks")) == {}


def an_effect_that_is_tried_again_is_a_retry(
    deployment: Deployment, flower: Flower, cards: Path
) -> None:
    cards.touch()  # no folder, so no card can be shown
    payload = thread("jot", policy="plan_then_review")
    deployment.client.submit(payload, machine="thread", id="one")
    deployment.reaches("one", "awaiting_confirmation")
    shown = partial(flower.states, "thread.resolution", "one v8")

    deployment.sees(lambda: shown() == ["RETRY"], what="the card is tried again")
    assert "tried again in" in flower.tasks("thread.resolution", "one v8")[0]["result"]
    cards.unlink()
    deployment.sees(lambda: shown() == ["SUCCESS"], what="the card is shown")


def an_effect_that_failed_is_a_failure_and_stays_one(
    deployment: Deployment, flower: Flower
) -> None:
    deployment.client.submit(thread("broken"), machine="thread", id="refund")
    deployment.reaches("refund", "awaiting_redirect")
    shown = partial(flower.tasks, "thread.execution", "refund v8")
    (row,) = deployment.sees(
        lambda: [row for row in shown() if row["state"] == "FAILURE"], what="it failed"
    )
    assert row["result"] == "'execution_failed -> awaiting_redirect: it is broken'"

    # A message that comes late changes nothing.
    again = EffectMessage(row["uuid"], "thread", "execution", 5)
    deployment.client.dispatch.publish([again])
    late = f"{row['uuid']}: not claimed: gone"
    deployment.sees(lambda: late in deployment.processes[0].output, what="it came twice")
    deployment.sees(lambda: shown()[0]["revoked"], what="Flower shows it")
    assert [row["state"] for row in shown()] == ["FAILURE"]
    page = html.unescape(flower.page(f"/task/{row['uuid']}"))
    assert row["result"] in page
    address = f"{deployment.variables['INTERLOCK_PUBLIC_URL']}/records/refund"
    assert f'<a class="btn btn-primary" href="{address}">' in page
    assert "Traceback" not in page


def an_effect_that_no_record_owes_is_revoked(deployment: Deployment, flower: Flower) -> None:
    deployment.client.dispatch.publish([EffectMessage("one:99.0:abc", "thread", "execution", 5)])

    shown = partial(flower.states, "thread.execution", "one v99")
    deployment.sees(lambda: shown() == ["REVOKED"], what="it is revoked")


def every_effect_of_a_thread_succeeds(deployment: Deployment, flower: Flower) -> None:
    record = deployment.reaches("one", "awaiting_confirmation")
    deployment.client.decide("one", "approve", proposal=record.proposal)
    assert deployment.ends("one")[0].state == "done"
    split(deployment, [part()])
    payload = thread("jot", policy="plan_then_review", source="witnessed")
    deployment.client.submit(payload, machine="thread", id="tidied")
    deployment.reaches("tidied", "awaiting_confirmation")
    deployment.client.fire("tidied", "cleanup_requested")

    def done() -> bool:
        return {row["name"] for row in flower.tasks() if row["state"] == "SUCCESS"} >= EFFECTS

    deployment.sees(done, what="flower shows a success of every effect")
    # The arguments are the record and its version.
    (row,) = flower.tasks("thread.execution", "one v9")
    assert (row["state"], row["result"]) == ("SUCCESS", "'execution_done -> done'")
    assert 'data-column="args"' in flower.page("/tasks")
    assert 'data-column="result"' in flower.page("/tasks")


def what_a_supervisor_holds_runs_until_its_end(
    deployment: Deployment, flower: Flower, tmp_path: Path
) -> None:
    workspace, go = tmp_path / "workspace", tmp_path / "go"
    workspace.mkdir()
    os.mkfifo(go)
    codons = [{"codon": "sort", "command": f"read line < {go}; exit $line"}]
    (tmp_path / "plan.json").write_text(json.dumps({"plan": "tidy", "codons": codons}))
    run = Runs(deployment.client).start(tmp_path / "plan.json", workspace).id
    launch = partial(flower.tasks, "run.launch", f"{run} v1")
    step = partial(flower.tasks, "codon.step", f"{run}/1 v1")

    def states() -> list[str]:
        return [str(row["state"]) for row in (*launch(), *step())]

    deployment.sees(lambda: states() == ["STARTED"] * 2, what="Flower shows both at work")
    assert launch()[0]["worker"] == step()[0]["worker"]
    go.write_text("7\n")
    deployment.sees(lambda: states() == ["FAILURE"] * 2, what="Flower shows how they ended")
    assert step()[0]["result"].startswith("'fail -> failed")
    assert launch()[0]["result"].startswith("'fail -> failed: ")


def the_broker_page_has_every_queue(deployment: Deployment, flower: Flower) -> None:
    page = flower.page("/broker")

    assert deployment.store_url.removeprefix("redis://") in page
    for name in ("execution", "inference", "sweeps"):
        assert f"<td>{deployment.prefix}.{name}</td>" in page


def what_flower_shows_leads_to_its_record(
    deployment: Deployment, flower: Flower, tmp_path: Path
) -> None:
    go = tmp_path / "session-may-end"
    agents = Agents(deployment, tmp_path)
    agents.start("owl", {"wait": str(go)})
    session = partial(flower.tasks, "loop.session")
    (row,) = deployment.sees(
        lambda: [row for row in session() if row["state"] == "STARTED"], what="it shows the session"
    )
    if CHROMIUM is not None:
        with chromium_browser() as browser:
            login: HttpCredentials = {"username": "me", "password": "mine"}
            page = browser.new_context(http_credentials=login).new_page()
            page.set_default_timeout(WITHIN_MS)
            page.goto(f"{flower.address}/task/{row['uuid']}")
            expect(page.locator("body")).to_contain_text("loop.session")
            expect(page.locator("body")).to_contain_text("STARTED")
            page.get_by_role("link", name="Show its record").click()
            expect(page.locator("#now")).to_contain_text("running")
            assert page.url == f"{deployment.variables['INTERLOCK_PUBLIC_URL']}/records/owl/1"
    go.touch()
    deployment.sees(lambda: session()[0]["state"] == "SUCCESS", what="it shows the end")
    agents.loops.stop("owl")
    agents.assert_nothing_left("owl")

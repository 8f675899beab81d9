"""The pages of the systems: what each shows of its records, to whom, and what its buttons do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from fastapi.testclient import TestClient

from interlock.git.branch import Mark, make
from interlock.git.repository import Repository
from interlock.kernel.effect import Kind
from interlock.kernel.event import Cause, Event
from interlock.kernel.record import root_of
from interlock.systems.jobs.client import Graphs
from interlock.systems.loops.client import Loops
from interlock.systems.runs.client import Runs
from interlock.systems.threads import page as page_of_threads
from interlock.systems.threads.client import Threads
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.console.app import create_console
from interlock.workers.console.system_pages import pages_of
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.terminal import page as system_page
from interlock.workers.terminal.page import Section
from tests.end_to_end.tasks.coding import git, make_repository
from tests.round_trips import round_trips
from tests.systems.jobs.graph_files import read_steps
from tests.systems.runs.workspaces import StoredWorkspace, make_checkpointed_folder
from tests.systems.tasks.claims import claimed, fire, noted, taken
from tests.systems.tasks.test_failed import given_up
from tests.systems.threads.threads import bring, client_of
from tests.workers.access.tokens import new_token
from tests.workers.console.test_console import MARKUP, OWN, SITE, sign_in
from tests.workers.supervision.published import Published

PAGE_TRIPS_MAX = 16  # those for tasks that are starved are made for all viewers together
PAGES = ("threads", "tasks", "jobs", "loops", "runs")


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def browser(interlock: Client) -> Iterator[TestClient]:
    with opened(interlock) as found:
        yield found


def opened(interlock: Client) -> TestClient:
    return TestClient(create_console(interlock), base_url=SITE, follow_redirects=False)


def seen(browser: TestClient, path: str) -> str:
    """Return a page, on which nothing that somebody wrote is markup."""
    found = browser.get(path)
    assert found.status_code == 200, found.text
    assert MARKUP not in found.text
    assert "<img" not in found.text
    return found.text


def test_each_system_has_its_page_also_where_there_is_nothing_yet(
    browser: TestClient, interlock: Client
) -> None:
    sign_in(browser, new_token(interlock, Role.VIEWER))

    index = seen(browser, "/systems")

    for name in PAGES:
        assert f'href="/systems/{name}"' in index
        assert "<h1>" in seen(browser, f"/systems/{name}")
    tasks = seen(browser, "/systems/tasks")
    assert 'data-copy="interlock task submit"' in tasks
    assert "`" not in tasks
    assert "<code>interlock run start</code>" in seen(browser, "/systems/runs")
    assert '<a href="/">Create a first one</a>' in seen(browser, "/fleet")
    assert browser.get("/systems/webhooks").status_code == 400
    assert browser.get("/systems/jobs?graph=none").status_code == 400
    assert browser.get("/systems/tasks?backlog=none").status_code == 400


def test_a_thread_says_because_of_what_a_person_is_asked_and_who_is_in_its_family(
    browser: TestClient, interlock: Client
) -> None:
    asks = bring(interlock, "paper", "awaiting_confirmation", title=MARKUP)
    bring(interlock, "paste", "awaiting_confirmation")
    part = {"inciting": {"source": "test", "title": "Ink"}}
    Threads(interlock).decompose("paper", [{"title": "Ink"}], proposal=asks.proposal)
    entries = interlock.show("paper").entries
    spawn = next(entry for entry in entries if entry.kind is Kind.SPAWN)
    generation = spawn.suffix.partition(".")[0]
    child, countdown = f"paper/{generation}.1", f"{spawn.countdown}:{generation}"
    cause = Cause("spawn")
    interlock.dispatch.lifecycle.create("thread", child, part, cause, countdown=countdown)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    asked, shown = seen(browser, "/systems/threads"), seen(browser, f"/records/{child}")

    assert "the policy “ask every step” asks a person about every action" in asked
    assert "confidence 0.1 is below the floor 0.6" in asked
    assert 'href="/records/paper"' in shown.partition("<h2>Family</h2>")[2]
    assert "$0.20 (its own: $0.50; its parents allow less)" in shown


def test_the_tasks_say_who_works_on_what_and_a_failed_one_is_replayed_by_an_operator_only(
    browser: TestClient, interlock: Client
) -> None:
    claim = claimed(interlock, "b/one", title=MARKUP).alive()
    noted(interlock, claim.names.agent, "progress", message=f"at it {MARKUP}", percent=40)
    failed = given_up(interlock, "two")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    looked = seen(browser, "/systems/tasks")
    refused = browser.post("/systems/tasks/replay", data={"task": failed}, headers=OWN)
    foreign = browser.post("/systems/tasks/replay", data={"task": failed})
    sign_in(browser, new_token(interlock, Role.OPERATOR))
    offered = seen(browser, "/systems/tasks?backlog=b")
    done = browser.post("/systems/tasks/replay", data={"task": failed}, headers=OWN)
    again = browser.post("/systems/tasks/replay", data={"task": failed}, headers=OWN)

    exact = r'in <time datetime="[^"]+" title="[^"]+ UTC">'
    assert re.search(f'data-name="Deadline">{exact}', looked)
    assert "running" in looked
    assert "40 % at it" in looked
    assert "no luck" in looked
    assert "<button>Replay" not in looked
    assert (refused.status_code, foreign.status_code) == (403, 403)
    assert "<button>Replay" in offered
    assert done.headers["Location"] == f"/records/{failed}"
    assert (again.status_code, "it is open, not failed" in again.text) == (400, True)
    last = [line for line in interlock.history(failed) if isinstance(line, Event)][-1]
    assert (last.trigger, last.cause.actor) == ("retried", "ann")


def test_a_task_shows_its_signals_the_output_of_its_agent_and_where_its_diff_is(
    browser: TestClient, interlock: Client, tmp_path: Path
) -> None:
    published = Published(interlock, tmp_path, "other-host")
    signal = {"type": "test_passes", "value": f"make {MARKUP}"}
    claim = claimed(interlock, "b/one", signals=[signal]).alive(host="other-host")
    noted(interlock, claim.names.agent, "progress", message=MARKUP, percent=None)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    shown, diff = seen(browser, "/records/b/one"), seen(browser, "/systems/tasks?diff=b/one")
    published.printed("supervisors/b/one~1", f"{MARKUP}\x1b[2J 2 passed\n", "a warning")
    output, again = seen(browser, "/output/b/one"), seen(browser, "/records/b/one")
    found = seen(browser, "/diff/b/one")

    assert "not checked yet" in shown
    assert "The worker on other-host has been asked for it just now." in shown
    assert 'data-follow="/follow-output/b/one"' in shown
    for page in (output, again):
        assert "\\x1b[2J 2 passed" in page
        assert "a warning" in page
        assert "<td>other-host</td>" in page
        assert re.search(
            r'since its last output</th><td><time datetime="[^"]+" title="[^"]+ UTC">', page
        )
    assert "The agent reported" in shown
    assert "has been asked for it just now; this takes a moment." in diff
    assert 'data-follow="/follow-diff/b/one"' in diff
    assert "<td>other-host</td>" in found
    assert "answers: its repository /nowhere is not on this computer." in found
    assert "follow" not in found, "nothing is compared again for a page that is left open"


def test_the_diff_of_a_task_is_on_its_page_and_its_card_on_whatever_computer_they_are(
    browser: TestClient, interlock: Client, server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo")
    claim = claimed(interlock, "b/one", repo=str(repo), target="main", needs_approval=True)
    mark = Mark(claim.names.branch, tmp_path / "worktree", git(repo, "rev-parse", "main"))
    make(Repository.open(repo), mark, marked=False)
    git(repo, "checkout", "-q", mark.branch)
    (repo / "answer.txt").write_text(f"{MARKUP}\n", "utf-8")
    git(repo, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qam", "work")
    sign_in(browser, new_token(interlock, Role.VIEWER))

    claim.alive(host=interlock.settings.host).delivered()
    changes = {"files": 1, "added": 1, "removed": 1, "binary": 0}
    verified = {"commit": "0" * 40, "branch": mark.branch, "changes": changes}
    fire(interlock, taken(interlock, "b/one"), "verified", verified)

    paths = ("/systems/tasks?diff=b/one", "/inbox/b/one")
    local = [seen(browser, path) for path in paths]
    here = client_of(server.url, prefix, host="desk")
    with opened(here) as elsewhere:
        sign_in(elsewhere, new_token(interlock, Role.VIEWER))
        asked = [seen(elsewhere, path) for path in paths]
        Published(here, tmp_path, interlock.settings.host).publisher.publish()
        remote = [seen(elsewhere, path) for path in paths]

    for page in asked:
        assert "has been asked for it just now" in page
        assert "answer.txt" not in page
    for page in (*local, *remote):
        assert "changed answer.txt" in page
        assert '<span class="removed">-41</span>' in page
        assert '<span class="added">+&lt;img' in page
    for page in remote:
        assert f"<td>{interlock.settings.host}</td>" in page
        assert re.search(r"compared</th><td>\d{4}-\d\d-\d\d [\d:]{8} UTC</td>", page)


def test_a_graph_is_drawn_with_its_starved_jobs_its_limits_and_who_must_sign_off(
    browser: TestClient, interlock: Client, tmp_path: Path
) -> None:
    head = "graph: g\nlimits: {cost: 2, iterations: 1}\nsteps:\n"
    steps = ("{name: a, worker: w}", "{name: b, worker: w, depends_on: [a]}")
    Graphs(interlock).submit(read_steps(tmp_path / "g.yaml", *steps, head=head))
    interlock.cancel("g/a", reason=MARKUP)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    graphs, graph = seen(browser, "/systems/jobs"), seen(browser, "/systems/jobs?graph=g")
    job = seen(browser, "/records/g/b")

    assert 'href="/systems/jobs?graph=g"' in graphs
    assert '<g data-job="b"' in graph
    assert "$0.00 of $2.00 used" in graph
    assert "0 of 2 jobs succeeded" in seen(browser, "/records/g")
    assert "waits for" in job or "starved" in job


def test_mail_is_sent_by_a_form_and_seen_by_who_may_look(
    browser: TestClient, interlock: Client
) -> None:
    agent = {"repo": "/r", "command": "true", "host": "other-host", "next": "on_mail"}
    interlock.submit(agent, id="scout/1", machine="loop")
    sign_in(browser, new_token(interlock, Role.VIEWER))
    mail = {"agent": "scout", "text": f"look\r\nhere {MARKUP}", "kind": "task", "urgent": "yes"}

    looked = seen(browser, "/systems/loops?agent=scout")
    refused = browser.post("/systems/loops/send", data=mail, headers=OWN)
    sign_in(browser, new_token(interlock, Role.PRODUCER))
    offered = seen(browser, "/systems/loops?agent=scout")
    sent = browser.post("/systems/loops/send", data=mail, headers=OWN)
    empty = browser.post("/systems/loops/send", data={**mail, "text": " "}, headers=OWN)
    noted(interlock, "scout/1", "mail_refused", to="nobody", reason=f"unknown {MARKUP}")
    after = seen(browser, "/systems/loops?agent=scout")

    assert "It has printed nothing yet: it has not started." in looked
    assert re.search(r'timer limit</th><td>in <time datetime="[^"]+" title="[^"]+ UTC">', looked)
    shown = looked.partition("<main")[2].partition("</main")[0]
    assert shown.count("<button") == shown.count("data-copy"), "a viewer may only copy"
    assert refused.status_code == 403
    assert "/systems/loops/send" in offered
    assert sent.headers["Location"] == "/systems/loops?agent=scout"
    assert empty.status_code == 422
    found = Loops(interlock).mailbox.newest("scout")
    assert [(one["sender"], one["text"]) for one in found] == [("ann", f"look\nhere {MARKUP}")]
    assert "urgent task" in after
    assert "refused" in after.partition("<h2>Mail from it</h2>")[2]
    assert "1 waiting, 1 urgent" in seen(browser, "/systems/loops")


def test_a_run_shows_its_codons_and_costs_and_goes_back_to_a_checkpoint(
    client: redis.Redis, server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    folder = make_checkpointed_folder(tmp_path / "checkpointed")
    workspace = StoredWorkspace(client, server.url, prefix, tmp_path, folder)
    run, interlock = workspace.completed_run(), workspace.runs.client
    first, last = workspace.shas["run-1"][:2]
    with opened(interlock) as browser:
        sign_in(browser, new_token(interlock, Role.VIEWER))
        form = {"run": run, "to": first}
        looked = seen(browser, f"/systems/runs?run={run}")
        differ = seen(browser, f"/systems/runs?run={run}&differ={first}..{last}")
        unknown = seen(browser, f"/systems/runs?run={run}&differ={'0' * 40}..{last}")
        refused = browser.post("/systems/runs/rollback", data=form, headers=OWN)
        sign_in(browser, new_token(interlock, Role.OPERATOR))
        offered = seen(browser, f"/systems/runs?run={run}")
        done = browser.post("/systems/runs/rollback", data=form, headers=OWN)
    there_client = client_of(server.url, prefix, host="other-host")
    between = f"between={first}..{last}"
    with opened(there_client) as browser:
        sign_in(browser, new_token(interlock, Role.OPERATOR))
        there = seen(browser, f"/systems/runs?run={run}")
        nowhere = browser.post("/systems/runs/rollback", data=form, headers=OWN)
        asked = seen(browser, f"/systems/runs?run={run}&differ={first}..{last}")
        Published(there_client, tmp_path, interlock.settings.host).publisher.publish()
        answered = seen(browser, f"/diff/{run}?{between}")
        sign_in(browser, new_token(interlock, Role.VIEWER, machines=("run", "codon")))
        hidden = [browser.get(f"/{each}/{run}?{between}") for each in ("diff", "follow-diff")]

    elsewhere = f"on {interlock.settings.host}; to go back, run"
    assert (elsewhere in there, "Go back to it" in there) == (True, False)
    assert (nowhere.status_code, elsewhere in nowhere.text) == (400, True)
    assert f"differ={first}..{last}" in there.replace("%2E", ".")
    assert f'data-follow="/follow-diff/{run}?{between}"' in asked
    assert "Nothing is changed." not in asked
    assert "Nothing is changed." in answered
    for each in hidden:
        assert each.status_code == 400
        assert "who may also see the records of: workspace" in each.text
    assert "1. clean" in looked
    assert "$0.00050 for its codons" in looked
    assert "$0.000030 for skipped codons and sentinels" in looked
    assert f"differ={first}..{last}" in looked.replace("%2E", ".")
    assert ("Go back to it" in looked, refused.status_code) == (False, 403)
    assert "Nothing is changed." in differ
    others = differ.partition("Compare with another")[2].replace("%2E", ".")
    for other in (first, last):
        assert f"differ={other}..{last}" in others
        assert f"differ={first}..{other}" in others
    assert "It cannot be shown: there is no checkpoint" in unknown
    assert "Go back to it" in offered
    following = run.replace("/1", "/2")
    assert done.status_code == 303
    starting = interlock.show(following).data["starting"]
    assert (starting["reason"], starting["source"]["checkpoint_sha"]) == ("rollback", first)


def test_pages_take_as_many_round_trips_for_many_rows_as_for_few(
    interlock: Client, tmp_path: Path
) -> None:
    addresses: list[tuple[str, dict[str, str]]] = [
        *((name, {}) for name in PAGES),
        ("tasks", {"backlog": "b"}),
        ("jobs", {"graph": "g"}),
        ("loops", {"agent": "scout"}),
    ]

    def trips() -> list[int]:
        found = []
        for name, query in addresses:
            with round_trips() as sent:
                sections_of(interlock, name, query)
            found.append(sent())
        return found

    add_rows(interlock, tmp_path, range(2))
    trips()  # loads the scripts of the store
    for_few = trips()
    add_rows(interlock, tmp_path, range(2, 4))

    assert trips() == for_few
    assert max(for_few) <= PAGE_TRIPS_MAX


def test_a_damaged_record_hides_no_other(interlock: Client, tmp_path: Path) -> None:
    add_rows(interlock, tmp_path, range(2))
    dispatch = interlock.dispatch
    failed = [row.id for row in interlock.list(machine="task", state="failed")]
    runs = [row.id for row in interlock.list(machine="run")]
    trusted = [row.id for row in interlock.list(machine="identity")]
    jobs, codon = ("g/1", "other-1"), f"{runs[1]}/1"
    for record_id in ("agent-1/1", "b/open-1", *jobs, codon, failed[0], runs[0], trusted[0]):
        dispatch.client.hset(dispatch.keys.record(record_id), "data", "{")

    def shown(name: str, **query: str) -> str:
        return repr(sections_of(interlock, name, query))

    assert "agent-0" in shown("loops")
    assert "b/open-0" in shown("tasks", backlog="b")
    assert "Trust in agents" in shown("tasks", backlog=root_of(failed[0]))
    assert failed[1] in shown("tasks")
    assert trusted[1] in shown("tasks")
    assert "other-0" in shown("jobs")
    assert "g/0" in shown("jobs", graph="g")
    assert runs[1] in shown("runs")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("{", "Expecting property name"),
        ("[]", ".*list"),
        ("{}", "its field &#39;[a-z_]+&#39; is missing"),
    ],
)
def test_the_pages_of_a_damaged_agent_name_its_record_and_the_fault(
    browser: TestClient, interlock: Client, tmp_path: Path, data: str, fault: str
) -> None:
    add_rows(interlock, tmp_path, range(1))
    keys = interlock.dispatch.keys
    interlock.dispatch.client.hset(keys.record("agent-0/1"), "data", data)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    for path in ("/records/agent-0/1", "/systems/loops?agent=agent-0"):
        shown = browser.get(path)

        assert shown.status_code == 500
        assert "The record cannot be read" in shown.text
        named = f"<p>the record &#39;agent-0/1&#39; cannot be read: {fault}"
        assert re.search(named, shown.text), shown.text
        # Once in the sentence, and once in the text that its button copies.
        assert shown.text.count("`interlock verify agent-0/1` says whether") == 2
    assert browser.get("/records/scout/1").status_code == 200


def sections_of(interlock: Client, name: str, query: Mapping[str, str]) -> list[Section]:
    """Read all sections of a page, also those that the console keeps."""
    view = pages_of(interlock)[name].view(interlock, query)
    return [replace(one, parts=one.read()) if one.read else one for one in view]


def add_rows(interlock: Client, folder: Path, numbers: Iterable[int]) -> None:
    """Create records that the pages of the systems list, all in the same states."""
    graphs, loops, runs, plan = Graphs(interlock), Loops(interlock), Runs(interlock), folder / "p"
    plan.write_text("plan: tidy\ncodons:\n  - {codon: clean, command: 'true'}\n", "utf-8")
    job = {"phases": [{"worker": {"command": "true"}}]}
    agent = {"repo": "/r", "command": "true", "host": "elsewhere", "next": "on_mail"}
    for agent_name in ("scout", *(f"agent-{number}" for number in numbers)):
        interlock.submit(agent, id=f"{agent_name}/1", machine="loop")
        sent = loops.send(agent_name, "look at it", sender="ann")
        noted(interlock, f"{agent_name}/1", "mail_sent", to=agent_name, mail=sent)
    for number in numbers:
        bring(interlock, f"paper-{number}", "awaiting_intent_confirmation")
        given_up(interlock, "failed", backlog=f"lost-{number}")
        interlock.submit({"title": "x"}, id=f"b/open-{number}", machine="task")
        graphs.create(f"other-{number}/first", job, held=False)
        waiting = {**job, "depends_on": [f"other-{number}/first"]}
        graphs.create(f"g/{number}", waiting, held=False)
        (folder / f"w{number}").mkdir()
        runs.start(plan, folder / f"w{number}")


def test_a_token_for_some_machines_sees_the_pages_of_no_other(
    browser: TestClient, interlock: Client
) -> None:
    bring(interlock, "paper", "awaiting_confirmation")
    claimed(interlock, "b/one")
    sign_in(browser, new_token(interlock, Role.OPERATOR, machines=("thread", "task")))

    index, record = seen(browser, "/systems"), seen(browser, "/records/b/one")
    refused = [browser.get("/systems/tasks"), browser.get("/systems/tasks?diff=b/one")]
    refused.append(browser.post("/systems/tasks/replay", data={"task": "b/one"}, headers=OWN))

    assert 'href="/systems/threads"' in index
    assert 'href="/systems/tasks"' not in index
    assert "All tasks of its backlog" not in record
    assert [one.status_code for one in refused] == [400, 400, 400]
    assert "b/one" not in seen(browser, "/systems/threads")


def test_a_panel_that_fails_leaves_the_rest_of_the_page(
    browser: TestClient, interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_client: Client, _record: object) -> list[system_page.Section]:
        raise ZeroDivisionError

    bring(interlock, "paper", "awaiting_confirmation")
    monkeypatch.setitem(page_of_threads.PAGE.panels, "thread", broken)
    sign_in(browser, new_token(interlock, Role.VIEWER))

    shown = seen(browser, "/records/paper")

    assert "This part cannot be shown. The log of this server has the error." in shown
    assert "awaiting confirmation" in shown

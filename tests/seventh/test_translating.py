"""A system that another company would write: by the door alone, with real workers."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from translating.sweeps import SWEEPS

from interlock import CallError, Client
from interlock.workers.access.roles import Role
from interlock.workers.console.app import create_console
from tests.end_to_end.conftest import module_workers, shared_folder, start_shared
from tests.end_to_end.deployment import Deployment
from tests.fakes.openai_server import OpenAIServer, says
from tests.git.scene import git
from tests.known_systems import know_only_ours
from tests.sweeping import sweeping
from tests.workers.access.tokens import new_token
from tests.workers.console.test_console import SITE, sign_in

pytestmark = pytest.mark.slow(minutes=0.5)
__all__ = ["module_workers", "shared_folder", "start_shared"]  # fixtures
PROJECT = Path(__file__).parent
INTERLOCK = "import sys; sys.path.pop(0); from interlock.__main__ import main; main()"
REQUEST = """\
title: The guide
source: guide.md
language: de
glossary:
  - term: world
    translation: Welt
budget: 2.50
answer within: 1h
"""
Run = Callable[..., subprocess.CompletedProcess[str]]
DOOR = ("interlock", "interlock.system", "interlock.git", "translating")
# It prints, reports, and writes its glossary and the reason of a rejection into the translation.
AGENT = """
echo working
echo '{"type": "progress", "message": "half", "percent": 50}' >&$INTERLOCK_REPORT_FD
echo '{"type": "usage", "tokens_in": 10, "cost_micro": 1000}' >&$INTERLOCK_REPORT_FD
{ cat; echo "reason: $TRANSLATION_REASON"; } > $TRANSLATION_TARGET
"""
FAILING = """
echo '{"type": "failed", "error": "no model answers"}' >&$INTERLOCK_REPORT_FD
"""
SPENDING = """
echo '{"type": "usage", "cost_micro": 3000000}' >&$INTERLOCK_REPORT_FD
sleep 1000
"""


@pytest.fixture(scope="module")
def shared_variables() -> Iterator[dict[str, str]]:
    with OpenAIServer(otherwise=says({"remark": "Look at the reason."})) as model:
        yield variables(model)


def variables(model: OpenAIServer) -> dict[str, str]:
    return {
        "INTERLOCK_MODEL": "openai:gpt-4o-mini",
        "INTERLOCK_MODEL_BASE_URL": model.url,
        "INTERLOCK_MODEL_API_KEY": "no-secret",
        "INTERLOCK_SYSTEMS": "translating",
        "INTERLOCK_CAPABILITIES_ROOT": str(PROJECT),
        "INTERLOCK_CAPABILITIES": "",
        "INTERLOCK_TRANSLATION_LANGUAGES": "de,fr",
    }


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    """Forget the system after the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        know_only_ours(patch)
        yield


@pytest.fixture
def deployment(known: None, module_workers: Deployment) -> Deployment:
    del known
    return module_workers


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with a text and a request for its translation."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "guide.md").write_text("Hello world\n")
    (folder / "request.yaml").write_text(REQUEST)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def run(deployment: Deployment, repository: Path) -> Run:
    """Return what runs `interlock` in the folder of the repository."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", INTERLOCK, *words],
            cwd=repository,
            env={**deployment.environment, **variables},
            check=False,
            capture_output=True,
            text=True,
        )

    return run


def submit(run: Run, record_id: str, agent: str) -> str:
    """Hand the request in, and return its id."""
    done = run("translation", "submit", "request.yaml", "--id", record_id, "--agent", agent)
    assert f"{record_id} is " in done.stdout, done.stderr
    return record_id


def browse(client: Client, role: Role) -> TestClient:
    """Return a browser in which a person of this role has signed in."""
    browser = TestClient(create_console(client), base_url=SITE, follow_redirects=False)
    sign_in(browser, new_token(client, role))
    return browser


def test_it_imports_the_door_alone() -> None:
    for path in sorted((PROJECT / "translating").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            for name in names:
                if name.partition(".")[0] in ("interlock", "tests", "translating"):
                    parts = name.split(".")
                    assert parts[0] == "translating" or ".".join(parts[:2]) in DOOR, path


def test_a_person_rejects_a_translation_and_accepts_the_next(
    deployment: Deployment, run: Run, repository: Path
) -> None:
    one = submit(run, "t-1", AGENT)
    first = deployment.reaches(one, "translated", "stuck")
    assert first.data["translated"] == "world: Welt\nreason: \n"
    assert first.data["remark"] == "Look at the reason."
    card = run("cards").stdout
    assert "Accept the translation of The guide to de?" in card
    assert "No, translate it again" in card
    answered = run("decide", one, "reject", "--proposal", f"{one}:3", "--reason", "too short")
    assert answered.returncode == 0, answered.stderr
    deployment.sees(lambda: deployment.client.show(one).version == 6, what="a second attempt")
    shown = run("translation", "show", one).stdout
    assert "guide.md to de, attempt 2" in shown
    assert "reason: too short" in shown
    answered = run("decide", one, "accept", "--proposal", f"{one}:6")
    assert answered.returncode == 0, answered.stderr
    (record,) = deployment.ends(one)

    assert (record.state, record.data["reason"]) == ("accepted", "too short")
    assert (record.counters["spent"], record.counters["tokens"]) == (2_072, 20)
    assert [note.detail["message"] for note in deployment.notes(one, "progress")] == ["half"] * 2
    branch = f"interlock/translations/{one}:guide.de.md"
    assert git(repository, "show", branch) == record.data["translated"].strip()
    assert one in run("translation", "list").stdout
    assert [event.because for event in deployment.events(one)] == [
        "it was handed in",
        "the agent has translated it",
        "it was read",
        "a person rejected it: too short",
        "the agent has translated it",
        "it was read",
        "a person accepted it",
    ]


def test_the_file_is_refused_with_line_and_column(run: Run, repository: Path) -> None:
    wrong = REQUEST.replace("title", "titel").replace("    translation", "    translatio")
    (repository / "request.yaml").write_text(wrong.replace("2.50", "two"))
    refused = run("translation", "submit", "request.yaml", "--agent", "true")
    (repository / "request.yaml").write_text(REQUEST.replace("guide.md", "nothing.md"))
    missing = run("translation", "submit", "request.yaml", "--agent", "true")

    similar = "'translatio' is not a field here; did you mean 'translation'?"
    assert refused.stderr.splitlines() == [
        "error request.yaml:1:1: say what is translated",
        "request.yaml:1:1: 'titel' is not a field here; did you mean 'title'?",
        "request.yaml:5:5: glossary (entry 1): it has no translation; write it",
        f"request.yaml:6:5: glossary (entry 1): {similar}",
        "request.yaml:7:1: budget: 'two': write US dollars like 5 or 0.05, with at most 6 decimals",
    ]
    problem = f"error request.yaml:2:1: source: {repository} has no such file\n"
    assert (missing.returncode, missing.stderr) == (1, problem)


def test_people_see_page_evidence_output_and_diff(deployment: Deployment, run: Run) -> None:
    one = submit(run, "t-2", AGENT)
    client = deployment.client
    deployment.reaches(one, "translated", "stuck")
    with browse(client, Role.VIEWER) as viewer:
        looked = viewer.get("/systems/translating").text
        card = viewer.get(f"/inbox/{one}").text
    assert f'href="/records/{one}"' in looked
    assert "<button>Cancel" not in looked
    assert "Glossary and translation" in card
    assert "world: Welt" in card

    def answered(path: str) -> Any:
        token = {"Authorization": f"Bearer {new_token(client, Role.VIEWER)}"}
        with TestClient(create_console(client), base_url=SITE) as api:
            found = api.get(f"/v1/records/{one}:{path}", headers=token).json()
        return found if found["state"] == "known" else None

    printed = deployment.sees(lambda: answered("output"), what="the output is published")
    assert (printed["output"], printed["run"]) == ("working\n", 1)
    (changed,) = deployment.sees(lambda: answered("diff"), what="the diff is made")["files"]
    assert (changed["path"], changed["kind"]) == ("guide.de.md", "added")
    assert "+world: Welt" in changed["text"]
    with browse(client, Role.OPERATOR) as operator:
        assert "<button>Cancel" in operator.get("/systems/translating").text
        assert "Its agent printed" in operator.get(f"/records/{one}").text
        form, origin = {"translation": one}, {"Origin": SITE}
        done = operator.post("/systems/translating/cancel", data=form, headers=origin)
    assert done.headers["Location"] == f"/records/{one}"
    assert client.show(one).state == "cancelled"


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        (FAILING, "no model answers"),
        (SPENDING, "its budget is used up"),
        ("echo oh >&2; exit 3", "exit code 3: oh"),
        ("true", "it wrote no translation"),
    ],
)
def test_an_agent_that_fails_is_tried_again_by_a_person(
    deployment: Deployment, run: Run, agent: str, error: str
) -> None:
    one = submit(run, f"t-{error.split(maxsplit=1)[0]}-{error.split()[1]}", agent)
    stuck = deployment.reaches(one, "translated", "stuck")
    assert (stuck.state, stuck.data["error"]) == ("stuck", error)
    deployment.client.decide(one, "retry", proposal=f"{one}:2")
    deployment.client.cancel(one)
    (record,) = deployment.ends(one)
    assert (record.state, record.data["attempt"]) == ("cancelled", 2)


def test_a_killed_supervisor_leaves_its_record_to_a_person(
    deployment: Deployment, run: Run, repository: Path
) -> None:
    one = submit(run, "t-3", f"echo $$ > {repository}/agent; exec sleep 1000")
    agent = repository / "agent"
    deployment.sees(lambda: agent.exists() and agent.read_text(), what="the agent is at work")
    (entry,) = deployment.client.show(one).entries
    os.kill(int(entry.holder.split(":")[3]), signal.SIGKILL)
    stuck = deployment.reaches(one, "translated", "stuck")
    assert (stuck.data["error"], deployment.events(one)[-1].cause.actor) == (
        "its process was lost",
        "orphans",
    )
    assert not Path(f"/proc/{agent.read_text().strip()}").exists()


def test_a_cancelled_translation_ends_its_agent(
    deployment: Deployment, run: Run, repository: Path
) -> None:
    begun, asked = repository / "begun", repository / "asked"
    one = submit(run, "t-7", f"trap 'touch {asked}; exit' TERM; touch {begun}; sleep 1000 & wait")
    deployment.sees(begun.exists, what="the agent is at work")
    deployment.client.cancel(one)
    deployment.sees(lambda: deployment.notes(one, "stale_result"), what="its agent has ended")
    deployment.comes_to_rest(one)
    assert asked.exists(), "the agent was asked to end, not killed"
    (late,) = deployment.notes(one, "stale_result")
    assert (deployment.client.show(one).state, late.detail["trigger"]) == ("cancelled", "failed")


def test_the_sweep_ends_what_nobody_answers(
    deployment: Deployment, run: Run, repository: Path
) -> None:
    one = submit(run, "t-4", AGENT)
    (repository / "request.yaml").write_text(REQUEST.replace("1h", "1s"))
    two = submit(run, "t-5", AGENT)
    deployment.reaches(one, "translated", "stuck")
    assert deployment.ends(two)[0].state == "expired"
    (sweep,) = SWEEPS
    records = sweeping(deployment.client.dispatch)
    assert sum(sweep.run(records, at)["waits"] for at in sweep.due(records)) >= 1
    assert deployment.client.show(one).state == "translated"
    assert deployment.events(two)[-1].cause.actor == "translations"
    with pytest.raises(CallError, match="only translations may fire it"):
        deployment.client.fire(one, "expire")


def test_its_settings_are_read_and_checked_as_those_of_interlock(
    run: Run, repository: Path
) -> None:
    (repository / "request.yaml").write_text(REQUEST.replace("language: de", "language: da"))
    refused = run("translation", "submit", "request.yaml", "--agent", AGENT)
    typo = run("translation", "list", INTERLOCK_TRANSLATION_LANGUAGE="de")

    assert "it is translated to de, fr alone" in refused.stderr
    assert "INTERLOCK_TRANSLATION_LANGUAGE is no setting" in typo.stderr
    assert (refused.returncode, typo.returncode) == (1, 1)


def test_lists_are_for_programs_too(run: Run) -> None:
    one = submit(run, "t-6", "sleep 1000")
    rows = json.loads(run("translation", "list", "--json").stdout)
    assert [(row["title"], row["state"]) for row in rows if row["id"] == one] == [
        ("The guide", "translating")
    ]
    shown = json.loads(run("translation", "show", one, "--json").stdout)
    assert (shown["state"], shown["glossary"][0]["term"]) == ("translating", "world")

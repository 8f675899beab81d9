"""Records of all systems with texts that agents write, and the pages that show these texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import redis

from interlock.git.branch import Mark, make
from interlock.git.repository import Repository
from interlock.systems.loops.client import Loops
from interlock.systems.tasks.agents import Agents
from interlock.workers.client import Client
from interlock.workers.engine.answer_links import LIFETIME_S, PATH, AnswerLink
from interlock.workers.engine.work import Outcome
from tests.end_to_end.tasks.coding import git, make_repository
from tests.races.in_process_worker import InProcessWorker
from tests.systems.jobs.test_graphs import COMMAND, settle
from tests.systems.runs.workspaces import CheckpointedFolder, StoredWorkspace
from tests.systems.tasks.claims import claimed, fire, noted, taken
from tests.systems.tasks.test_failed import fails, submitted
from tests.systems.threads.threads import bring
from tests.workers.supervision.published import Published

Write = Callable[[str], str]  # returns what an agent writes in the field with this name
Pages = dict[str, str]  # the address of each page, by what it shows
DIGEST = "0" * 64


def sample_pages(store: redis.Redis, interlock: Client, folder: Path, write: Write) -> Pages:
    """Make records of all systems, and return the pages that show them."""
    return {
        **pages_of_thread(interlock, write),
        **pages_of_tasks(interlock, folder, write),
        **pages_of_job(interlock, folder, write),
        **pages_of_agent(interlock, write),
        **pages_of_run(store, interlock, folder, write),
    }


def pages_of_thread(interlock: Client, write: Write) -> Pages:
    """Bring a thread to the consent to its action."""
    record = bring(interlock, "paper", "awaiting_confirmation", title=write("a thread's title"))
    several = urlencode({"choice": "approve", "proposal": record.proposal})
    expires_s = interlock.dispatch.views.now_ms() // 1_000 + LIFETIME_S
    link = AnswerLink("paper", record.proposal, "approve", "ann", expires_s)
    return {
        "threads": "/systems/threads",
        "inbox": "/inbox",
        "card": "/inbox/paper",
        "thread": "/records/paper",
        "records": "/records",
        "several cards": f"/answers?{several}",
        "link that answers": f"{PATH}/{link.token(interlock.dispatch.link_key)}",
    }


def pages_of_tasks(interlock: Client, folder: Path, write: Write) -> Pages:
    """Bring a task with a branch to its approval, let another fail, and claim a third."""
    repo = make_repository(folder / "repo")
    signal = {"type": "test_passes", "value": write("a task's signal")}
    title = write("a task's title")
    claim = claimed(
        interlock, "b/one", title=title, repo=str(repo), signals=[signal], needs_approval=True
    ).alive(host=interlock.settings.host)
    mark = Mark(claim.names.branch, folder / "worktree", git(repo, "rev-parse", "main"))
    make(Repository.open(repo), mark, marked=False)
    git(repo, "checkout", "-q", mark.branch)
    (repo / "answer.txt").write_text(f"{write('a changed file')}\n", "utf-8")
    git(repo, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qam", "work")
    published = Published(interlock, folder / "published", interlock.settings.host)
    published.printed("supervisors/b/one~1", write("a task's output"), write("a task's errors"))
    noted(interlock, claim.names.agent, "progress", message=write("a report"), percent=40)
    claim.turn("verify_requested")
    claim.task_fires("completed", {"summary": write("a task's summary")})
    claim.agent_fires("ended", {"exit_code": 0})
    changes = {"files": 1, "added": 1, "removed": 1, "binary": 0}
    verified = {"commit": "0" * 40, "branch": mark.branch, "changes": changes}
    fire(interlock, taken(interlock, "b/one"), "verified", verified)
    failed = submitted(interlock, "two")
    fails(interlock, failed, reason=write("a task's failure"))
    identity = Agents(interlock).register("b", name=write("an agent's name"))
    return {
        "tasks": "/systems/tasks",
        "backlog": "/systems/tasks?backlog=b",
        "diff": "/systems/tasks?diff=b/one",
        "task": "/records/b/one",
        "card of a task": "/inbox/b/one",
        "agent of a task": f"/records/{claim.names.agent}",
        "failed task": f"/records/{failed}",
        "identity": f"/records/{identity}",
    }


def pages_of_job(interlock: Client, folder: Path, write: Write) -> Pages:
    """Bring a job through its work and a review that objects."""
    settings, home = interlock.settings, folder / "jobs"
    worker = InProcessWorker(settings.store, settings.prefix, home)
    file = {"path": write("a job's evidence"), "sha256": DIGEST, "bytes": 1}
    summary = write("a job's summary")
    done = Outcome("agent_completed", {"summary": summary, "evidence": [file]})
    verdict = {"verdict": "intervention_required", "summary": write("a review's summary")}
    reasons = [write("a review's reason")]
    reviewed = Outcome("review_completed", {**verdict, "reasons": reasons})
    worker.graphs.create(
        "g/build",
        {
            "phases": COMMAND,
            "review": {"command": "true"},
            "objective": write("a job's objective"),
            "acceptance": [write("what a job must fulfil")],
        },
    )
    worker.graphs.command("g/build", "activate")
    settle(worker, "g/build", but=["worker"])
    worker.perform("g/build", "worker", lambda _: done)
    settle(worker, "g/build", but=["reviewer"])
    worker.perform("g/build", "reviewer", lambda _: reviewed)
    return {
        "jobs": "/systems/jobs",
        "graph": "/systems/jobs?graph=g",
        "job": "/records/g/build",
        "card of a job": "/inbox/g/build",
    }


def pages_of_agent(interlock: Client, write: Write) -> Pages:
    """Start a long-lived agent elsewhere, and give it mail and reports."""
    agent = {"repo": "/r", "command": "true", "host": "other-host", "next": "on_mail"}
    interlock.submit(agent, id="scout/1", machine="loop")
    Loops(interlock).send("scout", write("a mail"), sender=write("who sent a mail"))
    noted(interlock, "scout/1", "progress", message=write("an agent's report"), percent=None)
    noted(interlock, "scout/1", "mail_refused", to="nobody", reason=write("a refused mail"))
    return {
        "agents": "/systems/loops",
        "agent": "/systems/loops?agent=scout",
        "agent's record": "/records/scout/1",
    }


def pages_of_run(store: redis.Redis, interlock: Client, folder: Path, write: Write) -> Pages:
    """Let the codon of a run fail."""
    data = folder / "data-of-runs"
    data.mkdir()
    shas = {"run-1": ["0" * 40] * 2}
    settings = interlock.settings
    workspace = StoredWorkspace(
        store, settings.store, settings.prefix, folder / "runs", CheckpointedFolder(data, shas)
    )
    run = workspace.start_run()
    codon = workspace.codon(run, upto="running")
    failure = {"type": "timeout", "retriable": True, "message": write("a codon's failure")}
    metadata = {"exit_code": 1, "failure_reason": failure, "failed_during": "running"}
    workspace.move(codon, "running", "failed", **metadata)
    remark = {"sentinel": "w", "text": write("a sentinel's remark")}
    noted(interlock, codon, "sentinel_remark", **remark)
    interlock.fire(run, "fail", {"reason": write("why a run failed")})
    return {
        "runs": "/systems/runs",
        "run": f"/systems/runs?run={run}",
        "run's record": f"/records/{run}",
        "codon": f"/records/{codon}",
    }

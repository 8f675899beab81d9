"""Plans as programs and people use them: submitted, shown, approved and rejected."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from typer.testing import CliRunner

from interlock.kernel.errors import CallError, StoreDownError
from interlock.kernel.event import Event
from interlock.systems.tasks.client import Tasks
from interlock.systems.tasks.plans.client import PlanDecisions, Plans
from interlock.systems.tasks.plans.file import PlanFile, read_plan
from interlock.systems.tasks.roles import UnknownRoleError, check_role
from interlock.systems.tasks.settings import TaskSettings
from interlock.workers.cli import app
from interlock.workers.client import Client
from interlock.workers.config import SettingsError, read_settings
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.specs.problems import FileError
from tests.conftest import NewProxy
from tests.systems.threads.threads import client_of

# a comes first, then b and c, then d.
DIAMOND = (
    "{name: d, title: D, after: [b, c]}",
    "{name: b, title: B, after: [a]}",
    "{name: c, title: C, after: [a], role: writer, priority: 2}",
    "{name: a, title: A}",
)


@pytest.fixture
def client(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix)


@pytest.fixture
def plans(client: Client) -> Plans:
    return Plans(client)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.yaml"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a").write_text("1")
    git(folder, "add", "a")
    git(folder, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "begin")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["/usr/bin/env", "git", *arguments], cwd=folder, check=True)


def written(file: Path, *tasks: str, plan: str = "p", defaults: str = "{}") -> PlanFile:
    head = f"plan: {plan}\nbacklog: b\ndefaults: {defaults}\ntasks:\n"
    file.write_text(head + "".join(f"  - {task}\n" for task in tasks))
    return read_plan(file)


def task_ids(client: Client) -> list[str]:
    return sorted(row.id for row in client.list(machine="task"))


def answers(done: PlanDecisions) -> dict[str, str]:
    return {one.id.removeprefix("b/"): one.answer for one in done.tasks}


def states(plans: Plans, plan: str = "p") -> dict[str, str]:
    return {task.name: task.state for task in plans.show("b", plan).tasks}


def test_the_tasks_of_a_new_plan_are_planned_and_cannot_be_claimed(
    plans: Plans, client: Client, file: Path
) -> None:
    done = plans.submit(written(file, *DIAMOND))

    assert [one.id for one in done.tasks] == ["b/a", "b/b", "b/c", "b/d"]
    assert not any(one.replayed for one in done.tasks)
    assert set(states(plans).values()) == {"planned"}
    assert (client.show("b/c").data["plan"], client.show("b/c").priority) == ("p", 2)
    assert plans.tasks.claim_next("b", owner="ann") is None
    with pytest.raises(CallError):
        plans.tasks.claim("b/a", owner="ann")


def test_a_plan_is_shown_in_order_with_its_proposals(plans: Plans, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))
    plans.submit(written(file, "{name: other, title: O}", plan="q"))

    plan = plans.show("b", "p")

    assert [task.name for task in plan.tasks] == ["a", "b", "c", "d"]
    assert plan.tasks[-1].after == ("b", "c")
    assert plan.proposals == {name: f"b/{name}:1" for name in "abcd"}
    assert [row["plan"] for row in plans.of("b")] == ["p", "q"]
    assert plans.of("b")[0] == {"plan": "p", "tasks": 4, "states": {"planned": 4}}
    with pytest.raises(CallError, match="'b' has no plan 'x'; its plans: p, q"):
        plans.show("b", "x")
    with pytest.raises(CallError, match="there is no backlog 'nowhere'; there are: b"):
        plans.show("nowhere", "x")


def test_submitting_a_plan_again_changes_nothing_in_any_state(
    plans: Plans, client: Client, file: Path
) -> None:
    plan = written(file, *DIAMOND)
    plans.submit(plan)
    seen = plans.show("b", "p").proposals
    plans.reject("b", "p", ["b"], seen=seen)
    plans.approve("b", "p", ["a"], seen=seen)
    before = {name: client.show(f"b/{name}") for name in "abcd"}

    again = plans.submit(plan)

    assert all(one.replayed for one in again.tasks)
    assert {name: client.show(f"b/{name}") for name in "abcd"} == before
    assert again.others == ()


def test_a_plan_grows_and_tasks_that_its_file_lacks_are_named(plans: Plans, file: Path) -> None:
    plans.submit(written(file, "{name: a, title: A}", "{name: old, title: O}"))
    before = plans.show("b", "p")

    done = plans.submit(written(file, "{name: a, title: A}", "{name: new, title: N}"))

    assert [(one.id, one.replayed) for one in done.tasks] == [("b/a", True), ("b/new", False)]
    assert done.others == ("old",)
    assert plans.show("b", "p").seen != before.seen
    later = plans.approve("b", "p", seen=before.proposals)
    assert answers(later) == {"a": "approved", "old": "approved", "new": "unseen"}
    assert states(plans)["new"] == "planned"


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_submission_that_was_interrupted_is_completed_by_repeating_it(
    server: EmbeddedServer,
    prefix: str,
    file: Path,
    new_proxy: NewProxy,
    monkeypatch: pytest.MonkeyPatch,
    cut: int,
) -> None:
    plan = written(file, *DIAMOND)
    proxy = new_proxy(server.port)
    far, near = client_of(proxy.url, prefix), client_of(server.url, prefix)
    create = far.dispatch.lifecycle.create

    def cut_off(*arguments: Any, **options: Any) -> Any:
        done = create(*arguments, **options)
        if len(task_ids(near)) == cut:
            proxy.refuse()
        return done

    monkeypatch.setattr(far.dispatch.lifecycle, "create", cut_off)
    with pytest.raises(StoreDownError):
        Plans(far).submit(plan)
    assert len(task_ids(near)) == cut

    done = Plans(near).submit(plan)

    assert sum(one.replayed for one in done.tasks) == cut
    assert set(states(Plans(near))) == set("abcd")


def test_nothing_is_written_if_a_name_is_taken(plans: Plans, client: Client, file: Path) -> None:
    Tasks(client).submit({"title": "mine"}, backlog="b", name="d")
    with pytest.raises(FileError, match=r"5:\d+: task 'd': name: id_taken: 'b/d' exists already"):
        plans.submit(written(file, *DIAMOND))
    assert task_ids(client) == ["b/d"]

    plans.submit(written(file, "{name: x, title: X}"))
    changed = "{name: x, title: Y, max_retries: 1, priority: 4}"
    with pytest.raises(FileError, match="with another title, max_retries, priority; choose"):
        plans.submit(written(file, "{name: new, title: N}", changed))
    with pytest.raises(FileError, match="is no task of this plan"):
        plans.submit(written(file, "{name: new, title: N}", "{name: x, title: X}", plan="q"))
    assert task_ids(client) == ["b/d", "b/x"]


def test_the_name_of_a_record_of_another_machine_is_taken(
    plans: Plans, client: Client, file: Path
) -> None:
    turn = {"task": "b/t", "number": 1, "agent": "b/g", "repo": "/r", "target": "main"}
    client.submit(turn | {"worktree": "/w"}, id="b/t~1", machine="turn")

    with pytest.raises(FileError, match="is a record of the machine turn"):
        plans.submit(written(file, "{name: t~1, title: T}"))


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        (
            ["{name: a, title: A, after: [none]}"],
            r"5:\d+: task 'a': after \(entry 1\): 'none' is no task of this",
        ),
        (
            ["{name: a, title: A, after_done: [gone]}"],
            r"after_done \(entry 1\): 'gone' is cancelled and will never be done; remove it",
        ),
        (
            ["{name: far, title: F, after: [top]}", "{name: x, title: X}"],
            r"5:\d+: task 'far': far -> top -> base -> far is a cycle",
        ),
        (["{name: a, title: A, repo: /nowhere, agent: make}"], "'/nowhere' does not exist"),
    ],
)
def test_a_plan_that_does_not_fit_its_backlog_is_refused_before_anything_is_written(
    plans: Plans, client: Client, file: Path, tasks: list[str], problem: str
) -> None:
    for name, after in (("top", ["base"]), ("base", ["far"]), ("gone", [])):
        Tasks(client).submit({"title": name, "depends_on": after}, backlog="b", name=name)
    client.cancel("b/gone")
    before = task_ids(client)

    with pytest.raises(FileError, match=problem):
        plans.submit(written(file, *tasks, "{name: last, title: L}"))
    assert task_ids(client) == before


def test_every_task_that_does_not_fit_the_backlog_is_named(
    plans: Plans, client: Client, file: Path
) -> None:
    Tasks(client).submit({"title": "mine"}, backlog="b", name="taken")
    tasks = (
        "{name: taken, title: T}",
        "{name: a, title: A, after: [b, none]}",
        "{name: b, title: B, after: [nobody]}",
        "{name: c, title: C, repo: /nowhere, agent: make}",
        "{name: d, title: D, repo: /nowhere, agent: make}",
    )

    with pytest.raises(FileError) as refused:
        plans.submit(written(file, *tasks))

    problems = refused.value.problems
    assert [(problem.line, problem.part) for problem in problems] == [
        (5, "task 'taken': name"),
        (6, "task 'a': after (entry 2)"),
        (7, "task 'b': after (entry 1)"),
        (8, "task 'c'"),
    ], "the fault of a repository is reported once"
    assert task_ids(client) == ["b/taken"]


def test_a_task_may_wait_for_a_task_of_another_plan(plans: Plans, file: Path) -> None:
    plans.submit(written(file, "{name: a, title: A}"))
    plans.submit(written(file, "{name: z, title: Z, after: [a]}", plan="q"))

    assert states(plans, "q") == {"z": "planned"}


def test_repositories_are_checked_before_anything_is_written(
    plans: Plans, client: Client, file: Path, repo: Path
) -> None:
    (repo / "a").write_text("2")
    repository = f"repo: {repo}, agent: make"

    with pytest.raises(FileError, match=r"6:\d+: task 'y': .* commit or stash them"):
        plans.submit(written(file, "{name: x, title: X}", f"{{name: y, title: Y, {repository}}}"))
    assert task_ids(client) == []


def test_tasks_of_one_repository_have_one_target(
    plans: Plans, client: Client, file: Path, repo: Path
) -> None:
    defaults = f"{{repo: {repo}, agent: make}}"
    git(repo, "switch", "-qc", "trunk")
    plans.submit(written(file, "{name: x, title: X}", defaults=defaults))
    git(repo, "switch", "-qc", "other")
    (repo / "a").write_text("the user works here")
    assert plans.submit(written(file, "{name: x, title: X}", defaults=defaults)).tasks[0].replayed
    git(repo, "checkout", "-q", "a")

    plans.submit(written(file, "{name: x, title: X}", "{name: y, title: Y}", defaults=defaults))

    assert client.show("b/y").data["target"] == client.show("b/x").data["target"] == "trunk"


def test_a_whole_plan_is_approved_and_earlier_decisions_are_reported(
    plans: Plans, client: Client, file: Path
) -> None:
    plans.submit(written(file, *DIAMOND))
    seen = plans.show("b", "p").proposals
    client.decide("b/a", "approve", proposal="b/a:1")
    client.decide("b/d", "reject", proposal="b/d:1")

    done = plans.approve("b", "p", seen=seen)

    assert answers(done) == {"a": "already", "b": "approved", "c": "approved", "d": "already"}
    assert [one.state for one in done.tasks] == ["open", "open", "open", "cancelled"]
    for shown in (seen, plans.show("b", "p").proposals):
        assert answers(plans.approve("b", "p", seen=shown)) == dict.fromkeys("abcd", "already")
    last = client.history("b/b")[-1]
    assert isinstance(last, Event)
    assert (last.trigger, last.cause.actor) == ("approved", "tester")


def test_one_task_is_approved_alone(plans: Plans, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))

    done = plans.approve("b", "p", ["a"], seen=plans.show("b", "p").proposals)

    assert answers(done) == {"a": "approved"}
    assert states(plans) == {"a": "open", "b": "planned", "c": "planned", "d": "planned"}
    claim = plans.tasks.claim_next("b", owner="ann")
    assert claim is not None
    assert claim.task == "b/a"


def test_the_rejection_of_a_task_names_the_tasks_that_it_starves(
    plans: Plans, client: Client, file: Path
) -> None:
    plans.submit(written(file, *DIAMOND))
    for name in ("outside", "ended"):
        Tasks(client).submit({"title": "t", "depends_on": ["d"]}, backlog="b", name=name)
    client.cancel("b/ended")

    done = plans.reject(
        "b", "p", ["b"], seen=plans.show("b", "p").proposals, reason="too expensive"
    )

    assert answers(done) == {"b": "rejected"}
    assert done.starved == {"d": "b", "outside": "d"}
    assert client.show("b/b").data["reason"] == "too expensive"
    rows = {task.name: task.why for task in plans.show("b", "p").tasks}
    assert rows["d"] == "it depends on b, which is cancelled and is not tried again"


def test_the_rejection_of_a_whole_plan_starves_no_task_of_it(plans: Plans, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))

    done = plans.reject("b", "p", seen=plans.show("b", "p").proposals)

    assert set(answers(done).values()) == {"rejected"}
    assert done.starved == {}
    assert plans.show("b", "p").proposals == {}


def test_an_unknown_task_is_refused_before_anything_is_decided(plans: Plans, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))
    seen = plans.show("b", "p").proposals

    with pytest.raises(CallError, match="the plan 'p' has no task 'e'; its tasks: a, b, c, d"):
        plans.approve("b", "p", ["a", "e"], seen=seen)
    with pytest.raises(CallError, match="has no task 'e'"):
        plans.reject("b", "p", seen=seen | {"e": "b/e:1"})
    assert set(states(plans).values()) == {"planned"}


def test_a_decision_on_tasks_that_were_not_seen_decides_nothing(plans: Plans, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))

    done = plans.approve("b", "p", ["a", "b"], seen={"a": "b/a:7"})

    assert answers(done) == {"a": "refused", "b": "unseen"}
    assert set(states(plans).values()) == {"planned"}


def test_of_concurrent_decisions_one_decides_each_task(
    server: EmbeddedServer, prefix: str, file: Path
) -> None:
    crowd = [Plans(client_of(server.url, prefix)) for _ in range(6)]
    crowd[0].submit(written(file, *(f"{{name: t{n}, title: T}}" for n in range(12))))
    seen = crowd[0].show("b", "p").proposals
    start = Barrier(len(crowd))

    def decide(number: int) -> PlanDecisions:
        start.wait()
        act = crowd[number].approve if number % 2 else crowd[number].reject
        return act("b", "p", seen=seen)

    with ThreadPoolExecutor(len(crowd)) as pool:
        done = list(pool.map(decide, range(len(crowd))))

    for task in (f"t{n}" for n in range(12)):
        every_answer = [answers(one)[task] for one in done]
        assert sorted(every_answer)[:5] == ["already"] * 5
        assert {"open": "approved", "cancelled": "rejected"}[states(crowd[0])[task]] in every_answer


def test_only_listed_roles_are_known(server: EmbeddedServer, prefix: str, file: Path) -> None:
    listed = client_of(server.url, prefix, roles=("writer", "tester"))
    plans = Plans(listed)

    with pytest.raises(
        FileError,
        match=r"6:\d+: task 'b': role: 'painter' is no known role; known: writer, tester, any",
    ):
        plans.submit(written(file, "{name: a, title: A}", "{name: b, title: B, role: painter}"))
    with pytest.raises(UnknownRoleError, match="INTERLOCK_ROLES lists them"):
        Tasks(listed).submit({"title": "x", "role": "painter"}, backlog="b", name="x")
    assert task_ids(listed) == []
    plans.submit(written(file, "{name: a, title: A}", "{name: b, title: B, role: writer}"))
    Tasks(listed).submit({"title": "x", "role": "any"}, backlog="b", name="x")
    assert task_ids(listed) == ["b/a", "b/b", "b/x"]


def test_every_role_is_known_if_none_is_listed() -> None:
    for role in ("painter", "any", None):
        check_role(read_settings({}), role)
    listed = read_settings({"INTERLOCK_ROLES": "writer, any"})
    assert listed.of(TaskSettings).roles == ("writer", "any")
    for role in ("writer", "any", None):
        check_role(listed, role)
    with pytest.raises(SettingsError, match="INTERLOCK_ROLES='a b'"):
        read_settings({"INTERLOCK_ROLES": "writer,a b"})


def test_a_planned_task_is_shown_as_a_card(plans: Plans, client: Client, file: Path) -> None:
    plans.submit(written(file, *DIAMOND))

    cards = {card.record_id: card for card in client.cards()}

    assert set(cards) == {"b/a", "b/b", "b/c", "b/d"}
    assert cards["b/d"].question == "It is planned in p, after b, c. Shall it be worked on?"
    assert cards["b/a"].question == "It is planned in p. Shall it be worked on?"
    assert (cards["b/a"].kind, cards["b/a"].title) == ("plan", "A")
    assert [one.name for one in cards["b/a"].affordances] == ["approve", "reject"]


class Shell:
    """Runs commands on a store: `shell(...)` returns JSON, `shell.output(...)` text."""

    def __init__(self, server: EmbeddedServer, prefix: str, patch: pytest.MonkeyPatch) -> None:
        for name, value in {"STORE_URL": server.url, "PREFIX": prefix, "NAMESPACE": prefix}.items():
            patch.setenv(f"INTERLOCK_{name}", value)

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def output(self, *arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == code, result.output
        return result.output


@pytest.fixture
def shell(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(server, prefix, monkeypatch)


def test_the_command_line_submits_shows_and_decides(shell: Shell, file: Path) -> None:
    written(file, *DIAMOND)

    assert shell("plan", "check", str(file))["new"] == ["d", "b", "c", "a"]
    assert shell("plan", "submit", str(file))["tasks"][0] == {"id": "b/a", "replayed": False}
    assert shell("plan", "submit", str(file))["tasks"][0]["replayed"]
    assert shell("plan", "check", str(file))["new"] == []
    assert shell("plan", "list", "b")[0]["states"] == {"planned": 4}
    plan = shell("plan", "show", "b", "p")
    refusal = shell("plan", "approve", "b", "p", code=1)
    assert refusal["message"].endswith(f"it is now --seen {plan['seen']}")
    seen = ("--seen", plan["seen"])
    assert shell("plan", "approve", "b", "p", "a", *seen)["tasks"][0]["answer"] == "approved"
    rejected = shell("plan", "reject", "b", "p", "c", "--reason", "no", *seen)
    assert rejected["starved"] == {"d": "c"}
    assert shell("task", "approve", "b/b", "--proposal", "b/b:1")["state"] == "open"
    assert shell("decide", "b/d", "reject", "--proposal", "b/d:1")["state"] == "cancelled"
    written(file, *DIAMOND, "{name: e, title: E}")
    shell("plan", "submit", str(file))
    stale = shell("plan", "approve", "b", "p", *seen, code=1)
    assert stale["error"] == "StaleDecisionError"
    left = shell("plan", "show", "b", "p")["tasks"]
    assert [task["name"] for task in left if task["proposal"]] == ["e"]


def test_the_command_line_speaks_to_people(shell: Shell, file: Path) -> None:
    assert "there is no backlog 'b'" in shell.output("plan", "list", "b", code=1)
    written(file, *DIAMOND)
    assert "p in b is valid: 4 tasks, 4 of them new" in shell.output("plan", "check", str(file))
    assert "no task runs before it is approved" in shell.output("plan", "submit", str(file))
    shown = shell.output("plan", "show", "b", "p")
    seen = shell("plan", "show", "b", "p")["seen"]
    assert f"interlock plan approve b p --seen {seen}" in shown
    assert "planned 4" in shell.output("plan", "list", "b")
    assert "It is planned in p, after a" in shell.output("cards")
    assert "(no title)" not in shell.output("show", "b/a")
    output = shell.output("plan", "reject", "b", "p", "a", "--seen", seen)
    assert "b depends on a: reject it too" in output
    written(file, "{name: c, title: other}")
    assert "id_taken" in shell.output("plan", "submit", str(file), code=1)
    file.write_text("plan: [")
    assert "it is not YAML" in shell.output("plan", "check", str(file), code=1)


def test_a_plan_that_waits_for_a_task_that_is_not_tried_again_says_so(
    shell: Shell, plans: Plans, file: Path
) -> None:
    plans.tasks.submit({"title": "done"}, backlog="b", name="done")
    plans.tasks.submit({"title": "frob", "max_retries": 0}, backlog="b", name="frob")
    claim = plans.tasks.claim("b/frob", owner="ann")
    plans.tasks.report(claim.key, claim.token, "failed", {"reason": "no"})
    written(
        file, "{name: two, title: T, after: [done, frob]}", "{name: three, title: T, after: [two]}"
    )

    for command in ("check", "submit"):
        shown = shell.output("plan", command, str(file))
        failed = "two depends on frob, which has failed and is not tried again"
        assert f"{failed}: interlock task retry b/frob, or remove the dependency" in shown
        assert "so three, which depends on two, waits as well" in shown

    why = {task.name: task.why for task in plans.show("b", "p").tasks}
    assert why["three"] == "it depends on frob, which is failed and is not tried again"

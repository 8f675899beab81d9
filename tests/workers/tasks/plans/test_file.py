"""Plan files as people write them, and the errors for what is wrong in one."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.kernel.machines.tasks.task.payloads import NewTask
from interlock.workers.specs.dependencies import cycle_in, in_order, starved_by
from interlock.workers.tasks.plans.file import (
    BYTES_MAX,
    FIELDS,
    PAYLOAD_NAMES,
    PLAN_FIELDS,
    TASKS_MAX,
    PlanError,
    PlanFile,
    read_plan,
)

PAGE = (Path(__file__).parents[4] / "docs" / "plans.md").read_text("utf-8")
HEAD = "plan: p\nbacklog: b\ntasks:\n"
SIGNALS = "{repo: ., agent: make, name: a, title: A, verify: [x], signals: "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file for the plan of a test."""
    return tmp_path / "plan.yaml"


def read(file: Path, *tasks: str, head: str = HEAD, **options: Any) -> PlanFile:
    """Write a plan of these tasks, each a flow mapping in a line of its own, and read it."""
    file.write_text(head + "".join(f"  - {task}\n" for task in tasks))
    return read_plan(file, **options)


def test_the_example_in_the_documentation_is_a_plan(file: Path) -> None:
    for example in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        file.write_text(example)

        plan = read_plan(file)

        assert (plan.name, plan.backlog) == ("faster-search", "shop")
        assert [task.name for task in plan.tasks] == ["index", "query", "docs"]
        assert plan.tasks[1].after == ("index",)


def test_the_documentation_has_the_fields() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE))

    assert set(PLAN_FIELDS) <= documented <= set(FIELDS)


def test_every_field_of_a_new_task_can_be_written(file: Path) -> None:
    reached = {PAYLOAD_NAMES.get(field, field) for field in FIELDS} | {"plan"}
    task = read(file, "{name: a, title: A, after: [x], owns: [src/a.py], model: m}").tasks[0]

    assert set(NewTask.model_fields) <= reached
    assert task.payload["owned_files"] == ["src/a.py"]
    assert task.payload["depends_on"] == ["x"]
    assert (task.payload["model"], task.payload["plan"]) == ("m", "p")


def test_defaults_fill_missing_fields_and_a_null_removes_one(file: Path) -> None:
    shared = "{repo: code, agent: make, verify: [pytest], role: writer, priority: 2}"
    head = f"plan: p\nbacklog: b\ndefaults: {shared}\ntasks:\n"
    one, other, bare = read(
        file,
        "{name: a, title: A}",
        "{name: b, title: B, verify: [tox], role: tester, priority: 0}",
        "{name: c, title: C, verify: null, repo: null, agent: null}",
        head=head,
    ).tasks

    assert one.payload["signals"] == [{"type": "test_passes", "value": "pytest"}]
    assert (one.payload["role"], one.priority) == ("writer", 2)
    assert one.payload["repo"] == str(file.parent / "code")
    assert "target" not in one.payload
    assert other.payload["signals"][0]["value"] == "tox"
    assert (other.payload["role"], other.priority) == ("tester", 0)
    assert not {"signals", "repo", "agent"} & set(bare.payload)


def test_the_commands_of_verify_come_before_the_other_signals(file: Path) -> None:
    task = read(file, SIGNALS + "[{type: path_exists, value: a}]}").tasks[0]

    assert [one["type"] for one in task.payload["signals"]] == ["test_passes", "path_exists"]


def test_repository_and_backlog_can_be_named_outside_of_the_file(
    file: Path, tmp_path: Path
) -> None:
    head = "plan: p\ntasks:\n"

    plan = read(file, "{name: a, title: A, agent: make}", head=head, repo=tmp_path / "shop")
    other = read(file, "{name: a, title: A}", head=head, backlog="b")

    assert (plan.backlog, other.backlog) == ("shop", "b")
    assert plan.tasks[0].payload["repo"] == str(tmp_path / "shop")


REFUSED = [
    ("2: it is no YAML", "plan: p\n\tbacklog: b\n"),
    ("1: the plan is None; write lines", ""),
    ("1: the plan is ['a']; write lines", "- a\n"),
    ("it is no YAML: expected a single document", "plan: p\n--- \nplan: q\n"),
    ("2: 'plan' is there twice, first in line 1; remove one", "plan: p\nplan: q\n"),
    ("2: the alias *a is not allowed; write it out", "plan: &a p\nbacklog: *a\n"),
    ("2: the merge << is not allowed; write it out", "plan: p\n<<: {backlog: b}\n"),
    ("1: the tag tag:yaml.org,2002:binary is not allowed", "plan: !!binary aGk=\n"),
    ("1: a key is a list or a mapping; write a word", "{[a]: b}\n"),
    ("1: it is nested deeper than 16 levels", "plan: " + "[" * 40 + "]" * 40),
    ("it is no YAML: unacceptable character #x0000", "plan: \0"),
    ("it is no YAML: month must be in 1..12", "plan: 2026-13-01\n"),
    ("1: the plan: 'plans' is not a field; known: plan, backlog", "plans: p\n"),
    ("2: defaults: 'name' is not a field; known: text,", "plan: p\ndefaults: {name: x}\n"),
    ("1: name the plan: `plan: <name>`", "backlog: b\n"),
    ("1: name the backlog: `backlog: <name>`", "plan: p\n"),
    ("1: plan: 7: it is not text; put it in quotation marks", "plan: 7\n"),
    ("1: plan: 'a b' cannot be an id: use letters", "plan: a b\n"),
    ("1: task 'a': plan: 'ppp", f"plan: {'p' * 65}\nbacklog: b\ntasks: [{{name: a, title: A}}]\n"),
    (
        "2: backlog: 'a/b': a slash separates a subtask from its task; leave it out",
        "plan: p\nbacklog: a/b\n",
    ),
    ("1: tasks: write a list of at least one task", "plan: p\nbacklog: b\n"),
    ("3: tasks: write a list of at least one task", "plan: p\nbacklog: b\ntasks: []\n"),
    ("4: task 1 is 'x'; write lines of the form key: value", HEAD + "  - x\n"),
    ("4: task 1: 'depends_on' is not a field; known: name,", HEAD + "  - {depends_on: [a]}\n"),
    ("4: task 1: name it: `name: <name>`", HEAD + "  - {title: A}\n"),
    ("4: name: True: it is not text; put it in", HEAD + "  - {name: yes, title: A}\n"),
    ("4: name: 'a/b': a slash separates", HEAD + "  - {name: a/b, title: A}\n"),
    ("4: task 'a': title: Field required", HEAD + "  - {name: a}\n"),
    (
        "6: task 'a': role: 'x y': String should match",
        HEAD + "  - name: a\n    title: A\n    role: x y\n",
    ),
    (
        "4: task 'a': scope: 'huge': Input should be 'small', 'medium'",
        HEAD + "  - {name: a, title: A, scope: huge}\n",
    ),
    (
        "4: task 'a': max_retries: 101: Input should be less than",
        HEAD + "  - {name: a, title: A, max_retries: 101}\n",
    ),
    (
        "7: task 'a': owns.1: '../b': '../b' is no path inside",
        HEAD + "  - name: a\n    title: A\n    owns: [c,\n      ../b]\n",
    ),
    (
        "4: task 'a': priority: 10: write 0 (first) to 9 (last)",
        HEAD + "  - {name: a, title: A, priority: 10}\n",
    ),
    ("4: task 'a': an agent needs a repo to work in", HEAD + "  - {name: a, title: A, agent: x}\n"),
    (
        "4: task 'a': after: it names a task twice",
        HEAD + "  - {name: a, title: A, after: [b, b]}\n",
    ),
    (
        "4: task 'a': after: 'b': Input should be a valid list",
        HEAD + "  - {name: a, title: A, after: b}\n",
    ),
    ("4: verify: 'pytest': write a list", HEAD + "  - {name: a, title: A, verify: pytest}\n"),
    (
        "3: verify: 'pytest': write a list",
        "plan: p\nbacklog: b\ndefaults: {verify: pytest}\ntasks:\n  - {name: a, title: A}\n",
    ),
    (
        "5: task 'b': title: 7: Input should be a valid string",
        HEAD + "  - {name: a, title: A}\n  - {name: b, title: 7}\n",
    ),
    (
        "6: task 'a': name: line 4 has a task of this name; choose another",
        HEAD + "  - {name: a, title: A}\n  - {name: b, title: B}\n  - {name: a, title: C}\n",
    ),
    (
        "4: task 'a': verify.0: 5: the value must be a text",
        HEAD + "  - {name: a, title: A, verify: [5]}\n",
    ),
    (
        "4: task 'a': signals.0: 'x': 'tests' is not a type of signal; known: path_exists,",
        HEAD + f"  - {SIGNALS}[{{type: tests, value: x}}]}}\n",
    ),
    (
        "5: task 'a': signals.1: '../x'",
        HEAD + f"  - {SIGNALS}[{{type: path_exists, value: x}},\n"
        "      {type: path_exists, value: ../x}]}",
    ),
    (
        "5: task 'a': signals.0.value: '",
        HEAD + f"  - {SIGNALS}[\n      {{type: test_passes, value: {'x' * 2001}}}]}}",
    ),
    ("4: task 'a': signals.0: 7: a signal has the two", HEAD + f"  - {SIGNALS}[7]}}\n"),
    (
        "4: task 'a': after: a -> c -> b -> a is a cycle; remove one of these dependencies",
        HEAD + "  - {name: a, title: A, after: [c]}\n  - {name: b, title: B, after: [a]}\n"
        "  - {name: c, title: C, after: [b]}\n",
    ),
    ("4: task 'a': after: a -> a is a cycle", HEAD + "  - {name: a, title: A, after: [a]}\n"),
    (
        f"3: tasks: these are {TASKS_MAX + 1}, at most {TASKS_MAX} are allowed; split it",
        HEAD + "".join(f"  - {{name: t{n}, title: T}}\n" for n in range(TASKS_MAX + 1)),
    ),
    (
        "4: task 'a': it has 300034 bytes, the limit is 262144; pass a reference",
        HEAD + '  - {name: a, title: A, text: "' + 50_000 * "\\x01" + '"}',
    ),
    (
        "cannot be an id: longer than 200 characters",
        HEAD.replace("backlog: b", "backlog: " + "b" * 150)
        + f"  - {{name: {'a' * 60}, title: A}}\n",
    ),
]


@pytest.mark.parametrize(("problem", "text"), REFUSED, ids=[problem for problem, _ in REFUSED])
def test_a_fault_is_named_in_one_sentence_with_its_line(
    file: Path, problem: str, text: str
) -> None:
    file.write_text(text)

    with pytest.raises(PlanError) as refusal:
        read_plan(file)

    assert str(refusal.value).startswith(f"{file}:")
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_plan_must_be_a_text_file_of_limited_size(file: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        read_plan(file)
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        read_plan(file.parent)
    file.write_bytes(b"plan: p\nbacklog: \xff\n")
    with pytest.raises(PlanError, match="2: is not UTF-8; save it as UTF-8"):
        read_plan(file)
    file.write_bytes(b"#" * (BYTES_MAX + 1))
    with pytest.raises(PlanError, match=f"has more than {BYTES_MAX} bytes; split it"):
        read_plan(file)


def test_nested_aliases_are_refused_at_once(file: Path) -> None:
    lines = ["a: &a [x]"] + [
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(24)
    ]
    file.write_text("\n".join(lines))
    began = time.monotonic()

    with pytest.raises(PlanError, match="alias"):
        read_plan(file)
    file.write_text("plan: " + "[" * (BYTES_MAX - 10))
    with pytest.raises(PlanError, match="deeper"):
        read_plan(file)

    assert time.monotonic() - began < 5


@given(text=st.text(max_size=200) | st.text(alphabet="plantsk:-[]{}&*!#'\" \n\t|>?0", max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_plan_or_refused(file: Path, text: str) -> None:
    file.write_text(text, "utf-8", errors="replace")

    with pytest.raises(PlanError):
        read_plan(file)


NAMES = tuple("abcdefgh")
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=4), min_size=1
)


def reaches(graph: dict[str, list[str]], start: str) -> set[str]:
    """Return what a task waits for, directly and indirectly, in the simplest way."""
    found: set[str] = set()
    pending = list(graph.get(start, ()))
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += graph.get(one, ())
    return found


@given(graph=GRAPHS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_plan_is_refused_exactly_if_its_tasks_wait_for_each_other(
    file: Path, graph: dict[str, list[str]]
) -> None:
    tasks = [f"{{name: {n}, title: T, after: [{', '.join(on)}]}}" for n, on in graph.items()]
    cyclic = any(name in reaches(graph, name) for name in graph)

    if not cyclic:
        plan = read(file, *tasks)
        assert [task.name for task in plan.tasks] == list(graph)
        return
    with pytest.raises(PlanError, match="is a cycle; remove one of these dependencies"):
        read(file, *tasks)
    cycle = cycle_in(graph)
    assert cycle[0] == cycle[-1]
    assert len(set(cycle)) == len(cycle) - 1
    assert all(after in graph[name] for name, after in itertools.pairwise(cycle))


@given(graph=GRAPHS)
def test_an_order_has_every_task_after_those_that_it_waits_for(
    graph: dict[str, list[str]],
) -> None:
    order = in_order(graph, key=lambda name: name)

    assert sorted(order) == sorted(graph)
    for name, after in graph.items():
        if not any(one in reaches(graph, one) for one in {name} | (reaches(graph, name))):
            assert all(order.index(one) < order.index(name) for one in after if one in graph)


@given(graph=GRAPHS, gone=st.sets(st.sampled_from(NAMES), min_size=1, max_size=2))
def test_a_task_is_starved_exactly_if_it_depends_on_one_that_is_gone(
    graph: dict[str, list[str]], gone: set[str]
) -> None:
    starved = starved_by(graph, gone)

    assert set(starved) == {n for n in graph if reaches(graph, n) & gone and n not in gone}
    assert all(blocker in graph[name] for name, blocker in starved.items())

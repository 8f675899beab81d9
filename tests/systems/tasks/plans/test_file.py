"""Plans of tasks as people write them, and the problems that are reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.systems.tasks.machines.task.limits import SIGNAL_LENGTH_MAX, SIGNALS_MAX
from interlock.systems.tasks.machines.task.payloads import NewTask
from interlock.systems.tasks.plans.fields import TaskOfPlan
from interlock.systems.tasks.plans.file import (
    BYTES_MAX,
    TASKS_MAX,
    PlanFile,
    read_plan,
)
from interlock.workers.specs.problems import FileError
from tests.any_text import any_text

PAGE = (Path(__file__).parents[4] / "docs" / "plans.md").read_text("utf-8")
HEAD = "plan: p\nbacklog: b\ntasks:\n"
TOP = "plan: p\nbacklog: b\ntasks: [{name: a, title: A}]\n"
OTHER_PLANS = "tasks may name those of other plans"
SIGNALS = "{repo: ., agent: make, name: a, title: A, verify: [x], signals: "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file for the plan of a test."""
    return tmp_path / "plan.yaml"


def read(file: Path, *tasks: str, head: str = HEAD, **options: Any) -> PlanFile:
    """Write a plan of these tasks, each a flow mapping in a line of its own, and read it."""
    file.write_text(head + "".join(f"  - {task}\n" for task in tasks))
    return read_plan(file, **options)


def refusals(file: Path) -> list[str]:
    """Return the problems of a plan, each as `12: sentence`."""
    with pytest.raises(FileError) as refusal:
        read_plan(file)
    problems = refusal.value.problems
    return [f"{one.line}: {one.text}" if one.line else one.text for one in problems]


def test_the_example_in_the_documentation_is_a_plan(file: Path) -> None:
    for example in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        file.write_text(example)

        plan = read_plan(file)

        assert (plan.name, plan.backlog) == ("faster-search", "shop")
        assert [task.name for task in plan.tasks] == ["index", "query", "docs"]
        assert plan.tasks[1].after == ("index",)


def test_the_documentation_has_the_fields() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE))
    written = {field.alias or name for name, field in TaskOfPlan.model_fields.items()}

    ours = written - NewTask.model_fields.keys()
    assert ours | {"title", "text", "signals", "repo"} <= documented <= written


def test_every_field_of_a_new_task_can_be_written(file: Path) -> None:
    reached = TaskOfPlan.model_fields.keys() | {"plan"}
    waits = "after: [x], after_done: [y]"
    task = read(file, f"{{name: a, title: A, {waits}, owns: [src/a.py], model: m}}").tasks[0]

    assert set(NewTask.model_fields) <= reached
    assert task.payload["owned_files"] == ["src/a.py"]
    assert (task.payload["depends_on"], task.payload["depends_on_done"]) == (["x"], ["y"])
    assert task.after == ("x", "y")
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
    ("2: it is not YAML", "plan: p\n\tbacklog: b\n"),
    ("1: None: write lines of the form key: value", ""),
    ("1: ['a']: write lines of the form key: value", "- a\n"),
    ("it is not YAML: expected a single document", "plan: p\n--- \nplan: q\n"),
    ("2: 'plan' is there twice, first in line 1; remove one", "plan: p\nplan: q\n"),
    ("2: the alias *a is not allowed; write it out", "plan: &a p\nbacklog: *a\n"),
    ("2: the merge << is not allowed; write it out", "plan: p\n<<: {backlog: b}\n"),
    ("1: the tag tag:yaml.org,2002:binary is not allowed", "plan: !!binary aGk=\n"),
    ("1: a key is a list or a mapping; write a word", "{[a]: b}\n"),
    ("1: it is nested deeper than 16 levels", "plan: " + "[" * 40 + "]" * 40),
    ("it is not YAML: unacceptable character #x0000", "plan: \0"),
    ("it is not YAML: month must be in 1..12", "plan: 2026-13-01\n"),
    (
        "4: 'plans' is not a field here; did you mean 'plan'?",
        TOP + "plans: p\n",
    ),
    ("4: defaults: 'name' is not a field here; known: text, ", TOP + "defaults: {name: x}\n"),
    ("4: defaults: verify: 'pytest': write a list", TOP + "defaults: {verify: pytest}\n"),
    ("1: name the plan: `plan: <name>`", TOP.removeprefix("plan: p\n")),
    ("1: name the plan: `plan: <name>`", TOP.replace("plan: p", "plan: ~")),
    ("1: name the backlog: `backlog: <name>`", TOP.replace("backlog: b", "")),
    ("1: plan: 7: it is not text; put it in quotation marks", TOP.replace("plan: p", "plan: 7")),
    ("1: plan: 'a b': it is not a name; use up to 64", TOP.replace("plan: p", "plan: a b")),
    ("1: plan: 'ppp", TOP.replace("plan: p", f"plan: {'p' * 65}")),
    ("2: backlog: 'a/b': a name has no slash; remove it", TOP.replace("g: b", "g: a/b")),
    ("1: tasks: write a list of at least one task", "plan: p\nbacklog: b\n"),
    ("3: tasks: write a list of at least one task", "plan: p\nbacklog: b\ntasks: []\n"),
    ("4: task 1: 'x': write lines of the form key: value", HEAD + "  - x\n"),
    (
        "4: task 'a': 'depends_on' is not a field here; known: name, title, text, after,",
        HEAD + "  - {name: a, title: A, depends_on: [a]}\n",
    ),
    ("4: task 1: name it: `name: <name>`", HEAD + "  - {title: A}\n"),
    ("4: task 1: name: True: it is not text; put it in", HEAD + "  - {name: yes, title: A}\n"),
    ("4: task 1: name: 'a/b': a name has no slash", HEAD + "  - {name: a/b, title: A}\n"),
    ("4: task 'a': write what to do: `title: <text>`", HEAD + "  - {name: a}\n"),
    (
        "6: task 'a': role: 'x y': it is not a name; use",
        HEAD + "  - name: a\n    title: A\n    role: x y\n",
    ),
    (
        "4: task 'a': scope: 'huge': write small, medium, large or xl",
        HEAD + "  - {name: a, title: A, scope: huge}\n",
    ),
    (
        "4: task 'a': max_retries: 101: write 100 or less",
        HEAD + "  - {name: a, title: A, max_retries: 101}\n",
    ),
    (
        "7: task 'a': owns (entry 2): '../b': '../b' is no path inside",
        HEAD + "  - name: a\n    title: A\n    owns: [c,\n      ../b]\n",
    ),
    (
        "4: task 'a': abort_policy.tool_to_sibling: 3: write true or false",
        HEAD + "  - {name: a, title: A, abort_policy: {tool_to_sibling: 3}}\n",
    ),
    (
        "4: task 'a': priority: 10: write 0 (first) to 9 (last)",
        HEAD + "  - {name: a, title: A, priority: 10}\n",
    ),
    ("4: task 'a': an agent needs a repo to work in", HEAD + "  - {name: a, title: A, agent: x}\n"),
    (
        "4: task 'a': repo: '~/x': write the whole path; only a shell replaces ~",
        HEAD + "  - {name: a, title: A, agent: x, repo: ~/x}\n",
    ),
    (
        "5: task 'a': after: 'b' is there twice, first in line 4; remove one",
        HEAD + "  - {name: a, title: A, after: [b,\n     b]}\n",
    ),
    (
        "4: task 'a': it names a task twice among those that it waits for",
        HEAD + "  - {name: a, title: A, after: [b], after_done: [b]}\n",
    ),
    ("4: task 'a': after: 'b': write a list", HEAD + "  - {name: a, title: A, after: b}\n"),
    (
        "4: task 'a': after (entry 1): 7: it is not text",
        HEAD + "  - {name: a, title: A, after: [7]}\n",
    ),
    (
        "4: task 'a': verify: 'pytest': write a list",
        HEAD + "  - {name: a, title: A, verify: pytest}\n",
    ),
    (
        "5: task 'b': title: 7: it is not text; put it in quotation marks",
        HEAD + "  - {name: a, title: A}\n  - {name: b, title: 7}\n",
    ),
    (
        "6: task 'a': name: line 4 has a task of this name; choose another",
        HEAD + "  - {name: a, title: A}\n  - {name: b, title: B}\n  - {name: a, title: C}\n",
    ),
    (
        "4: task 'a': verify (entry 1): 5: the value must be a text",
        HEAD + "  - {name: a, title: A, verify: [5]}\n",
    ),
    (
        "4: task 'a': signals (entry 1): {'type': 'tests', 'value': 'x'}: 'tests' is not",
        HEAD + f"  - {SIGNALS}[{{type: tests, value: x}}]}}\n",
    ),
    (
        "5: task 'a': signals (entry 2): {'type': 'path_exists', 'value': '../x'}: the",
        HEAD + f"  - {SIGNALS}[{{type: path_exists, value: x}},\n"
        "      {type: path_exists, value: ../x}]}",
    ),
    (
        f"the value has {SIGNAL_LENGTH_MAX + 1} characters, at most {SIGNAL_LENGTH_MAX} are",
        HEAD
        + f"  - {SIGNALS}[\n      {{type: test_passes, value: {'x' * (SIGNAL_LENGTH_MAX + 1)}}}]}}",
    ),
    ("4: task 'a': signals (entry 1): 7: a signal has the two", HEAD + f"  - {SIGNALS}[7]}}\n"),
    (
        "4: task 'a': a task has at most 50 signals, these are 51",
        HEAD + f"  - {SIGNALS}[{', '.join(['{type: path_exists, value: x}'] * SIGNALS_MAX)}]}}\n",
    ),
    (
        "4: task 'a': a -> c -> b -> a is a cycle; remove one of these dependencies",
        HEAD + "  - {name: a, title: A, after: [c]}\n  - {name: b, title: B, after_done: [a]}\n"
        "  - {name: c, title: C, after: [b]}\n",
    ),
    ("4: task 'a': a -> a is a cycle", HEAD + "  - {name: a, title: A, after: [a]}\n"),
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

    (only,) = refusals(file)

    assert problem in only


OUTSIDE = "'../x' is no path inside the repository: give it as git shows it"
NO_TAG = "'a b' is no tag: write one word of up to 40 visible characters, without a comma"
FAULTY = """\
plan: p
backlog: b
defaults: {priority: high}
tasks:
  - name: a
    title: A
    agnt: make
    owns: [src,
      ../x]
  - name: b
    title: B
    after: [a, c]
  - name: c
    title: C
    after:
      - b
    max_retries: -1
    tags: [eu, a b]
  - name: a
    title: Again
"""


def test_every_fault_is_named_with_its_line(file: Path) -> None:
    file.write_text(FAULTY)

    assert refusals(file) == [
        "3: defaults: priority: 'high': write 0 (first) to 9 (last)",
        "7: task 'a': 'agnt' is not a field here; did you mean 'agent'?",
        f"9: task 'a': owns (entry 2): '../x': {OUTSIDE}",
        "12: task 'b': b -> c -> b is a cycle; remove one of these dependencies",
        "17: task 'c': max_retries: -1: write 0 or more",
        f"18: task 'c': tags (entry 2): 'a b': {NO_TAG}",
        "19: task 'a': name: line 5 has a task of this name; choose another",
    ]


def test_a_task_without_a_default_that_was_refused_is_not_refused_for_it(file: Path) -> None:
    file.write_text(
        "plan: p\nbacklog: b\ndefaults: {repo: 7}\ntasks:\n  - {name: a, title: A, agent: x}\n"
    )

    assert refusals(file) == ["3: defaults: repo: 7: it is not text; put it in quotation marks"]


def test_the_size_of_a_plan_is_limited(file: Path) -> None:
    file.write_bytes(b"#" * (BYTES_MAX + 1))

    assert refusals(file) == [f"has more than {BYTES_MAX} bytes; split it, {OTHER_PLANS}"]


def test_nested_aliases_are_refused(file: Path) -> None:
    lines = ["a: &a [x]"] + [
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(24)
    ]
    file.write_text("\n".join(lines))

    with pytest.raises(FileError, match="alias"):
        read_plan(file)
    file.write_text("plan: " + "[" * (BYTES_MAX - 10))
    with pytest.raises(FileError, match="deeper"):
        read_plan(file)


@given(text=any_text(max_size=200) | st.text(alphabet="plantsk:-[]{}&*!#'\" \n\t|>?0", max_size=80))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_plan_or_refused(file: Path, text: str) -> None:
    file.write_text(text, "utf-8", errors="replace")

    with pytest.raises(FileError):
        read_plan(file)

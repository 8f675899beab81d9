"""Graphs that are written and read again without a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.systems.jobs.file.file import GraphFile, Step, read_graph
from interlock.systems.jobs.file.writer import UnwritableGraphError, graph_text
from interlock.systems.jobs.machines.graph.payloads import NewGraph
from interlock.systems.jobs.machines.job.payloads import NewJob
from interlock.workers.text import visible
from tests.any_text import any_text
from tests.systems.jobs.graph_files import read_steps

NAMES = ["a", "b-2", "c.d", "e", "0", "yes", "null", "1e3", "x~y", "n_1"]
WORDS = st.sampled_from(["ann", "bob", "7", "true", "a.b", "None"])
TEXTS = (
    any_text(max_size=20)
    | st.text(" \n\t:#-'\"|>&*!%@`{}[],=?\\\r\0\x85\u2028\ufeffab1", max_size=12)
    | st.sampled_from(["none", "~", "1", "0x1", "1:30", "2026-01-01", "<<", "a\n b\n", "é\n\n"])
)
LINES = TEXTS.filter(bool)
SECONDS = st.integers(60, 31_536_000)
MICRO = st.integers(0, 10**15) | st.sampled_from([1, 10, 1_000_000, 1_500_000])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
COST = {"cost_micro": MICRO}
EXECUTORS = (
    st.fixed_dictionaries({"command": LINES}, optional=COST)
    | st.fixed_dictionaries({"model": LINES}, optional=COST)
    | st.fixed_dictionaries(
        {"capability": WORDS},
        optional=COST | {"parameters": st.dictionaries(TEXTS, JSON, max_size=3)},
    )
)
PHASES = st.lists(
    st.fixed_dictionaries({"worker": EXECUTORS}, optional={"name": WORDS}),
    min_size=1,
    max_size=3,
    unique_by=lambda phase: str(phase.get("name", "default")),
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "cost_micro": st.none() | MICRO,
        "time_s": st.none() | SECONDS,
        "iterations": st.none() | st.integers(1, 1_000_000),
    },
)
STEWARDS = st.lists(WORDS, max_size=3)
PATHS = st.sampled_from(["/", "/a", "/a/b", "/a/../c", "/ä ö", "//x", "/t/"])
SHARED = {"stewards": STEWARDS, "remind_s": SECONDS, "limits": LIMITS}
BIRTHS = st.fixed_dictionaries(
    {"phases": PHASES},
    optional=SHARED
    | {
        "description": TEXTS,
        "objective": TEXTS,
        "details": TEXTS,
        "acceptance": st.lists(LINES, max_size=3),
        "tags": st.lists(st.sampled_from(["eu", "#1", "yes"]), max_size=3),
        "review": st.none() | EXECUTORS,
        "auto_approve": st.booleans(),
        "manual": st.booleans(),
        "hold": st.booleans(),
        "queue": st.none() | WORDS,
        "hours": st.none() | st.sampled_from(["22:00-06:00", "08:30-08:30"]),
        "on_cancel": st.sampled_from(["starve", "cancel"]),
        "folder": st.none() | PATHS,
        "dir": st.none() | PATHS,
        "host": st.none() | WORDS,
        "running_s": SECONDS,
        "reviewing_s": SECONDS,
        "recoveries_max": st.integers(0, 100),
        "retries_max": st.integers(0, 100),
        "retry_delay_s": st.integers(1, 3_600),
    },
)
GRAPH = st.fixed_dictionaries(
    {},
    optional=SHARED
    | {
        "description": TEXTS,
        "slots": st.integers(0, 1_000_000),
        "on_cancel": st.sampled_from(["starve", "cancel"]),
    },
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, dict[str, Any], list[Step]]:
    """Draw a graph as it is stored; each step depends on some of the steps before it."""
    name = draw(st.sampled_from(NAMES))
    steps: list[Step] = []
    above = draw(st.sampled_from(["", "/out", "/"]))
    for step in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4)):
        inside = [f"{name}/{one.name}" for one in steps]
        after = st.lists(st.sampled_from([*inside, "other/a", "other/yes"]), unique=True)
        payload = draw(BIRTHS) | {"depends_on": draw(after)}
        payload |= {"dir": f"{above.rstrip('/')}/{step}"} if above else {}
        steps.append(Step(step, draw(st.integers(0, 9)), 0, payload))
    return name, draw(GRAPH), steps


def full_payload(payload: Any) -> dict[str, Any]:
    """Return a payload with the defaults of all fields that it leaves out."""
    return NewJob.model_validate(payload).model_dump(exclude={"host"})


@pytest.mark.fuzz
@given(graph=graphs(), full=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_written_graph_is_read_as_it_was(
    tmp_path: Path, graph: tuple[str, dict[str, Any], list[Step]], *, full: bool
) -> None:
    name, payload, steps = graph
    if full:  # with all defaults, as a stored job has it
        steps = [
            replace(one, payload=NewJob.model_validate(one.payload).model_dump(mode="json"))
            for one in steps
        ]
    file = tmp_path / "graph.yaml"

    file.write_bytes(graph_text(name, payload, steps).encode())
    back = read_graph(file)

    assert back.name == name
    assert NewGraph.model_validate(back.payload) == NewGraph.model_validate(payload)
    assert [(one.name, one.priority, full_payload(one.payload)) for one in back.steps] == [
        (one.name, one.priority, full_payload(one.payload)) for one in steps
    ]
    again = graph_text(back.name, back.payload, back.steps)
    assert again.encode() == file.read_bytes(), "there is one way to write a graph"


def written(file: Path, *steps: str, head: str = "") -> dict[str, Any]:
    """Read a graph, write it again, and return the plain values of the written text."""
    graph = read_steps(file, *steps, head=f"graph: g\n{head}steps:\n")
    found: dict[str, Any] = yaml.safe_load(graph_text(graph.name, graph.payload, graph.steps))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a test's graph."""
    return tmp_path / "graph.yaml"


def test_a_written_graph_is_as_short_as_a_person_would_write_it(file: Path) -> None:
    head = "slots: 2\nlimits: {cost: 5.50, time: 90m}\nstewards: [ann]\nfolder: /x\ndir: /y\n"
    graph = read_steps(
        file,
        "{name: a, worker: w}",
        "{name: b, worker: {model: Say, cost: 0.1}, depends_on: [a, h/c], priority: 2}",
        '{name: c, worker: {command: none}, details: "one\\ntwo\\n", stewards: []}',
        head=f"graph: g\n{head}steps:\n",
    )

    assert (
        graph_text(graph.name, graph.payload, graph.steps)
        == """\
graph: g
slots: 2
limits:
  cost: 5.5
  time: 1h30m
stewards:
- ann
folder: /x
dir: /y
steps:
- name: a
  worker: w
- name: b
  depends_on:
  - a
  - h/c
  worker:
    model: Say
    cost: 0.1
  priority: 2
- name: c
  details: |
    one
    two
  worker:
    command: none
  stewards: null
"""
    )


def test_a_directory_is_written_once_if_each_step_has_its_own_there(file: Path) -> None:
    both = written(file, "{name: a, worker: w}", "{name: b, worker: w}", head="dir: /out\n")
    other = written(
        file, "{name: a, worker: w}", "{name: b, worker: w, dir: /b}", head="dir: /out\n"
    )
    without = written(
        file, "{name: a, worker: w}", "{name: b, worker: w, dir: ~}", head="dir: /out\n"
    )

    assert both["dir"] == "/out"
    assert not any("dir" in step for step in both["steps"])
    assert "dir" not in other
    assert [step["dir"] for step in other["steps"]] == ["/out/a", "/b"]
    assert "dir" not in without
    assert [step.get("dir") for step in without["steps"]] == ["/out/a", None]


def test_the_first_folder_of_a_step_becomes_that_of_the_graph(file: Path) -> None:
    graph = written(
        file,
        "{name: a, worker: w, folder: ~}",
        "{name: b, worker: w, folder: /b}",
        "{name: c, worker: w, folder: /c}",
    )

    assert graph["folder"] == "/b"
    assert [step.get("folder", "left out") for step in graph["steps"]] == [None, "left out", "/c"]


@pytest.mark.parametrize(
    "text", ["x\u202ey", "a\tb", "one\n\u200btwo\n", "\x85\u2028", "ä\n\ufeff"]
)
def test_a_hidden_character_is_written_as_an_escape(file: Path, text: str) -> None:
    payload = {"description": text, "phases": [{"worker": {"command": "true"}}]}
    file.write_text(graph_text("g", {}, [Step("a", 5, 0, payload)]), "utf-8")

    assert visible(file.read_text("utf-8")) == file.read_text("utf-8")
    assert read_graph(file).steps[0].payload["description"] == text


def test_nothing_is_written_as_an_alias(file: Path) -> None:
    same = {"deep": ["x"]}
    worker = {"capability": "c", "parameters": {"a": same, "b": same}}
    steps = [Step(name, 5, 0, {"phases": [{"worker": worker}], "review": worker}) for name in "ab"]

    file.write_text(graph_text("g", {}, steps))

    assert read_graph(file).steps[1].payload["review"] == worker


def nested(depth: int) -> Any:
    """Return lists that are nested this deep."""
    return [nested(depth - 1)] if depth else 1


UNWRITABLE: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = [
    ("steps: write a list of at least one step", {}, []),
    ("phases: this field is missing, add it", {}, [("a", {"phases": None})]),
    ("state: Extra inputs are not permitted", {}, [("a", {"state": "running"})]),
    ("slots: Input should be a valid integer", {"slots": "x"}, [("a", {})]),
    ("tenant: Extra inputs are not permitted", {"tenant": "x"}, [("a", {})]),
    ("depends_on: there is no step 'b'", {}, [("a", {"depends_on": ["g/b"]})]),
    ("depends_on: it depends on itself", {}, [("a", {"depends_on": ["g/a"]})]),
    (
        "depends_on: a -> b -> a is a cycle",
        {},
        [("a", {"depends_on": ["g/b"]}), ("b", {"depends_on": ["g/a"]})],
    ),
    ("name: line 5 has a step of this name", {}, [("a", {}), ("a", {})]),
    ("the step 'a' would be read differently", {}, [("a", {"folder": "x/y"})]),
    ("folder: '~': write the whole path", {}, [("a", {"folder": "~"})]),
    ("dir: '/a\\x00': no path has a NUL", {}, [("a", {"folder": "/", "dir": "/a\0"})]),
    (
        "it is nested deeper than 16 levels",
        {},
        [
            (
                "a",
                {"phases": [{"worker": {"capability": "c", "parameters": {"x": nested(16)}}}]},
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("problem", "payload", "steps"), UNWRITABLE, ids=[u[0] for u in UNWRITABLE]
)
def test_a_graph_that_could_not_be_read_again_is_not_written(
    problem: str, payload: dict[str, Any], steps: list[tuple[str, dict[str, Any]]]
) -> None:
    worker = {"phases": [{"worker": {"command": "w"}}]}
    payloads = [
        {part: value for part, value in (worker | payload_fields).items() if value is not None}
        for _, payload_fields in steps
    ]
    listed = [
        Step(name, 5, 0, payload_fields)
        for (name, _), payload_fields in zip(steps, payloads, strict=True)
    ]

    with pytest.raises(UnwritableGraphError) as refusal:
        graph_text("g", payload, listed)

    assert str(refusal.value).startswith("the graph 'g' cannot be written as a file: ")
    assert problem in refusal.value.problem


def test_a_read_graph_is_the_same_from_anywhere(tmp_path: Path) -> None:
    first, second = tmp_path / "x" / "graph.yaml", tmp_path / "y" / "other.yml"
    for file in (first, second):
        file.parent.mkdir()

    graph = read_steps(first, "{name: a, worker: w}", head="graph: g\ndir: out\nsteps:\n")
    second.write_text(graph_text(graph.name, graph.payload, graph.steps))
    moved = read_graph(second)

    assert isinstance(moved, GraphFile)
    assert moved.steps[0].payload == graph.steps[0].payload
    assert moved.steps[0].payload["dir"] == str(tmp_path / "x" / "out" / "a")

"""Graphs of jobs as people write them, read from YAML and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from interlock.systems.jobs.file import file as graph_file
from interlock.systems.jobs.file.fields import (
    WrittenDefaults,
    WrittenExecutor,
    WrittenGraph,
    WrittenHealth,
    WrittenStep,
)
from interlock.systems.jobs.file.file import BYTES_MAX, read_graph
from interlock.systems.jobs.machines.graph.payloads import NewGraph
from interlock.systems.jobs.machines.job.limits import DEPENDENCIES_MAX
from interlock.systems.jobs.machines.job.payloads import JobExecutor, NewJob
from interlock.workers.specs import problems as problems_module
from interlock.workers.specs.models import read_model
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import (
    FileError,
    Location,
    Problem,
    Problems,
)
from interlock.workers.specs.values import duration_text
from tests.any_text import any_text
from tests.systems.jobs.graph_files import payload_of, problems_of, read_or_refusal, read_steps

WHOLE = """\
graph: release-notes
description: What is new
slots: 4
stewards: [ann, bob]
on_cancel: cancel
limits: {cost: 5.00, time: 2h, iterations: 100}
folder: code
dir: out
defaults:
  review: {model: Look well., cost: 0.25}
  limits: {cost: 1, time: 1h}
  queue: slow
steps:
  - name: collect
    description: Collects
    objective: A list
    details: |
      One a line.
      No more.
    acceptance: [It is there, It is right]
    worker: make list
    limits: {time: 90s}
    health: {running: 30m, reviewing: 15s, recoveries: 0}
    retries: 7
    retry_delay: 1m
    remind: 3d
    priority: 0
    auto_approve: yes
    hours: 22:00-06:00
    manual: true
    hold: false
  - name: draft
    depends_on: [collect, other/part]
    phases:
      - {name: plan, worker: {capability: planner, parameters: {deep: [1, null, {a: 0.5}]}}}
      - {name: write, worker: {model: Write it., cost: "0.000001"}}
    review: none
    stewards: [eve]
    on_cancel: starve
    queue: null
"""


def names_in(model: type[BaseModel]) -> list[str]:
    """Return the names of a model's fields in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a test's graph."""
    return tmp_path / "graph.yaml"


def test_a_graph_is_read_whole(file: Path) -> None:
    file.write_text(WHOLE)
    folder = str(file.parent)

    graph = read_graph(file)

    assert (graph.path, graph.name) == (file, "release-notes")
    assert graph.payload == {
        "description": "What is new",
        "slots": 4,
        "stewards": ["ann", "bob"],
        "on_cancel": "cancel",
        "limits": {"cost_micro": 5_000_000, "time_s": 7200, "iterations": 100},
    }
    collect, draft = graph.steps
    assert (collect.name, collect.priority, collect.line) == ("collect", 0, 14)
    assert collect.payload == {
        "description": "Collects",
        "objective": "A list",
        "details": "One a line.\nNo more.\n",
        "acceptance": ["It is there", "It is right"],
        "phases": [{"worker": {"command": "make list"}}],
        "review": {"model": "Look well.", "cost_micro": 250_000},
        "auto_approve": True,
        "manual": True,
        "hours": "22:00-06:00",
        "queue": "slow",
        "stewards": ["ann", "bob"],
        "on_cancel": "cancel",
        "limits": {"cost_micro": 1_000_000, "time_s": 90},
        "folder": f"{folder}/code",
        "dir": f"{folder}/out/collect",
        "reviewing_s": 15,
        "recoveries_max": 0,
        "retries_max": 7,
        "retry_delay_s": 60,
        "remind_s": 259_200,
    }
    assert (draft.name, draft.priority, draft.line) == ("draft", 5, 32)
    assert draft.payload == {
        "depends_on": ["release-notes/collect", "other/part"],
        "phases": [
            {
                "name": "plan",
                "worker": {
                    "capability": "planner",
                    "parameters": {"deep": [1, None, {"a": 0.5}]},
                },
            },
            {"name": "write", "worker": {"model": "Write it.", "cost_micro": 1}},
        ],
        "stewards": ["eve"],
        "limits": {"cost_micro": 1_000_000, "time_s": 3600},
        "folder": f"{folder}/code",
        "dir": f"{folder}/out/draft",
    }


def test_payloads_that_are_read_are_valid_for_the_kernel(file: Path) -> None:
    file.write_text(WHOLE)
    graph = read_graph(file)

    for step in graph.steps:
        NewJob.model_validate(step.payload)
        NewJob.model_validate_json(json.dumps(step.payload))
    NewGraph.model_validate(graph.payload)


def test_every_field_of_a_payload_can_be_written_in_a_file() -> None:
    of_step = {*WrittenStep.model_fields, *WrittenHealth.model_fields} - {"worker", "health"}
    of_graph = {*WrittenGraph.model_fields} - {"graph", "defaults", "steps"}

    assert of_step - {"name", "priority"} | {"host"} == set(NewJob.model_fields)
    assert of_graph - {"folder", "dir"} == set(NewGraph.model_fields)
    assert set(WrittenExecutor.model_fields) == set(JobExecutor.model_fields)
    assert WrittenStep.model_fields.keys() - WrittenDefaults.model_fields.keys() == {
        *("name", "depends_on", "worker", "phases", "dir")
    }


def test_a_null_removes_an_inherited_value(file: Path) -> None:
    head = (
        "graph: g\nstewards: [ann]\non_cancel: cancel\nremind: 2d\nfolder: x\ndir: out\n"
        "defaults: {review: look, limits: {cost: 1, time: 1h}, health: {running: 1m}}\nsteps:\n"
    )
    nothing = "stewards: ~, on_cancel: ~, remind: ~, folder: ~, dir: ~, review: ~"

    bare = payload_of(file, f"{nothing}, limits: ~, health: ~", head)
    partly = payload_of(file, "limits: {time: ~}, health: {running: ~}", head)

    assert bare == {"phases": [{"worker": {"command": "w"}}]}
    assert partly["limits"] == {"cost_micro": 1_000_000}
    assert "running_s" not in partly
    assert (partly["stewards"], partly["on_cancel"], partly["remind_s"]) == (
        ["ann"],
        "cancel",
        172_800,
    )


def test_defaults_override_the_graph_and_a_step_overrides_both(file: Path) -> None:
    head = "graph: g\nstewards: [ann]\ndefaults: {stewards: [bob], priority: 2}\nsteps:\n"

    steps = read_steps(
        file, "{name: a, worker: w}", "{name: b, worker: w, stewards: [], priority: 3}", head=head
    ).steps

    assert [step.payload.get("stewards") for step in steps] == [["bob"], None]
    assert [step.priority for step in steps] == [2, 3]


def test_paths_are_relative_to_the_folder_of_the_file(file: Path, tmp_path: Path) -> None:
    assert payload_of(file, "manual: no")["folder"] == str(tmp_path)
    assert "dir" not in payload_of(file, "manual: no")
    assert payload_of(file, "folder: ../x/./y")["folder"] == str(tmp_path.parent / "x" / "y")
    assert payload_of(file, "folder: /a/../b, dir: /c//d")["folder"] == "/a/../b"
    assert payload_of(file, "dir: mine", "graph: g\ndir: out\nsteps:\n")["dir"] == str(
        tmp_path / "mine"
    )
    assert payload_of(file, "manual: no", "graph: g\ndir: /out/\nsteps:\n")["dir"] == "/out/a"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("7", 7), ("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("3d", 259_200)),
        *(("1d1h1m1s", 90_061), ("007s", 7)),
    ],
)
def test_a_time_is_seconds_or_has_units(file: Path, written: str, seconds: int) -> None:
    assert payload_of(file, f"limits: {{time: {written}}}")["limits"] == {"time_s": seconds}


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (5400, "1h30m"), (86_401, "1d1s"), (31_536_000, "365d")],
)
def test_a_time_is_written_in_the_units_that_it_has(seconds: int, written: str) -> None:
    assert duration_text(seconds) == written


def test_a_refusal_without_advice_of_ours_is_reported_as_pydantic_words_it() -> None:
    class Odd(BaseModel):
        count: Annotated[int, Field(multiple_of=5)]

    problems = Problems(Path("odd.yaml"))

    node = Node(3, 5, {"count": Node(3, 8, 7, "7")})
    assert read_model(Odd, node, Location(problems)) is None
    expected = Problem(3, 8, "count", "7: Input should be a multiple of 5")
    assert problems.error().problems == (expected,)


@pytest.mark.parametrize(
    ("written", "micro"),
    [
        *(("5", 5_000_000), ("5.00", 5_000_000), ('"5"', 5_000_000), ("2.", 2_000_000)),
        *(("0.1", 100_000), ("0.3", 300_000), ("1.1", 1_100_000), ("0.000001", 1)),
        *(("0.10000000", 100_000), ("123456789.123457", 123_456_789_123_457)),
        *(("1e2", 100_000_000), ("1.5e-1", 150_000), ("1e-06", 1), ("1000000000", 10**15)),
    ],
)
def test_a_cost_is_exact(file: Path, written: str, micro: int) -> None:
    assert payload_of(file, f"limits: {{cost: {written}}}")["limits"] == {"cost_micro": micro}


def test_one_slot_is_enough(file: Path) -> None:
    assert read_steps(
        file, "{name: a, worker: w}", head="graph: g\nslots: 1\nsteps:\n"
    ).payload == {"slots": 1}


def test_a_step_of_the_same_graph_can_be_named_by_its_whole_id(file: Path) -> None:
    last = read_steps(
        file, "{name: a, worker: w}", "{name: b, worker: w, depends_on: [g/a, h/b]}"
    ).steps[1]

    assert last.payload["depends_on"] == ["g/a", "h/b"]


def test_json_is_read_with_lines_as_well(tmp_path: Path) -> None:
    file = tmp_path / "graph.JSON"
    step = {"name": "a", "worker": {"model": "Party \U0001f389\u2028\x7f", "cost": 1e-06}}
    file.write_text(json.dumps({"graph": "g", "steps": [step]}, indent="\t"))

    worker = read_graph(file).steps[0].payload["phases"][0]["worker"]

    assert worker == {"model": "Party \U0001f389\u2028\x7f", "cost_micro": 1}
    assert problems_of(file, '{"graph": "g",\n\t"steps": [\n\t{"name": "a"}]}') == [
        "3: step 'a': say who works: `worker: <command>`, or `phases`"
    ]
    assert problems_of(file, '{"graph": "g",\n"graph": "h"}') == [
        "2: 'graph' is there twice, first in line 1; remove one"
    ]
    assert problems_of(file, "graph: g\n")[0].startswith("1: it is not JSON: ")


PARAMETERS = '"name": "a",\n "worker": {"capability": "c", "parameters": '


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ('"worker": "w",\n "name": "\\ud800"', "step 1: name: 'g/\\ud800' cannot be an id"),
        ('"name": "a", "worker": "w",\n "queue": "\\ud800"', "queue: '\\ud800': it has a lone sur"),
        (
            '"name": "a", "worker": "w",\n "\\ud800": 1',
            "'\\ud800' is not a field here; known: na",
        ),
        ('"name": "a", "worker": "w",\n "limits": {"cost": 1e400}', "limits.cost: inf: write US"),
        (PARAMETERS + '{"\\ud800": 1}}', "parameters: the key '\\ud800' is not text; put it in"),
        (
            PARAMETERS + '{"a": "\\ud800"}}',
            "parameters.a: '\\ud800': it has a lone surrogate, which",
        ),
        (PARAMETERS + '{"a": 1e400}}', "parameters.a: 1e400: JSON has no such number; put it in"),
    ],
)
def test_invalid_values_that_only_json_can_hold_are_refused(
    tmp_path: Path, fields: str, problem: str
) -> None:
    text = f'{{"graph": "g", "steps": [{{{fields}}}]}}'

    (only,) = problems_of(tmp_path / "graph.json", text)

    assert only.startswith("2: step ")
    assert problem in only


def test_the_number_of_dependencies_of_a_step_is_limited(file: Path) -> None:
    many = ", ".join(f"h/{n}" for n in range(DEPENDENCIES_MAX + 1))

    assert problems_of(
        file, f"graph: g\nsteps:\n- {{name: a, worker: w, depends_on: [{many}]}}\n"
    ) == [
        "3: step 'a': depends_on: List should have at most 20000 items after validation, not 20001"
    ]


def test_the_size_of_a_file_is_limited(file: Path) -> None:
    file.write_bytes(b"#" * BYTES_MAX)
    with pytest.raises(FileError, match="None: write lines"):
        read_graph(file)
    file.write_bytes(b"#" * (BYTES_MAX + 1))
    with pytest.raises(FileError, match=f"has more than {BYTES_MAX} bytes; split it"):
        read_graph(file)


def test_the_number_of_steps_is_limited(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_file, "STEPS_MAX", 5)
    steps = "".join(f"- {{name: s{n}, worker: w}}\n" for n in range(5))
    file.write_text(f"graph: g\nsteps:\n{steps}")

    assert len(read_graph(file).steps) == 5
    slots, many = problems_of(
        file, f"graph: g\nslots: x\nsteps:\n{steps}- {{name: s0, worker: 7}}\n"
    )
    assert slots.startswith("2: slots: 'x': write a whole number, 1 or more")
    assert many.startswith("3: steps: these are 6, at most 5 are allowed")


def test_the_length_of_ids_is_limited(file: Path) -> None:
    head = f"graph: {'g' * 100}\nsteps:\n"

    assert len(read_steps(file, f"{{name: {'a' * 99}, worker: w}}", head=head).steps[0].name) == 99
    (only,) = problems_of(file, f"{head}  - {{name: {'a' * 100}, worker: w}}\n")
    assert only.startswith("3: step 1: name: 'ggg")
    assert "cannot be an id: longer than 200 characters" in only


def test_more_problems_than_anybody_reads_are_counted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems_module, "PROBLEMS_MAX", 5)
    steps = "".join(f"- {{name: s{n}}}\n" for n in range(5 + 7))

    problems = problems_of(file, f"graph: g\nsteps:\n{steps}")

    assert len(problems) == 5 + 1
    assert problems[-1] == "0: there are 7 more problems; correct these first"
    assert problems[-2].startswith("7: step 's4': say who works")


def test_the_number_of_suggestions_is_limited(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems_module, "COMPARISONS_MAX", 100)
    count = 40
    steps = "".join(f"- {{name: s_{n}, worker: w, depends_on: [t_{n}]}}\n" for n in range(count))

    problems = problems_of(file, f"graph: g\nsteps:\n{steps}")

    meant = [problem for problem in problems if "did you mean" in problem]
    assert (len(problems), len(meant)) == (count, 100 // count)


@pytest.mark.parametrize("wide", [False, True], ids=["chain", "layers"])
def test_thousands_of_steps_are_read(file: Path, *, wide: bool) -> None:
    # A function that called itself for each step of the chain would end with an error.
    count, layer = 2_000, 100
    lines = ["graph: g", "steps:"]
    for n in range(count):
        above = range(n // layer * layer - layer, n // layer * layer, 10) if wide else [n - 1]
        after = ", ".join(f"s{m}" for m in above if m >= 0)
        lines.append(f"- name: s{n}\n  worker: make {n}\n  depends_on: [{after}]")
    file.write_text("\n".join(lines))

    graph = read_graph(file)

    assert len(graph.steps) == count
    assert len(graph.steps[-1].payload["depends_on"]) == (10 if wide else 1)


def test_a_chain_of_thousands_of_steps_may_be_one_cycle(file: Path) -> None:
    count = 2_000
    steps = [f"- {{name: s{n}, worker: w, depends_on: [s{(n + 1) % count}]}}" for n in range(count)]

    (only,) = problems_of(file, "graph: g\nsteps:\n" + "\n".join(steps))

    assert only.startswith("3: step 's0': depends_on: s0 -> s1 -> s2 ->")


def test_a_bomb_is_refused(file: Path) -> None:
    lines = ["a: &a [x]"] + [
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(24)
    ]

    assert "alias" in problems_of(file, "\n".join(lines))[0]
    assert "deeper" in problems_of(file, "graph: " + "[" * 500_000)[0]
    assert "too long" in problems_of(file, "graph: 1" + ":1" * 250_000)[0]


def test_reading_writes_nothing(file: Path) -> None:
    read_steps(file, "{name: a, worker: w}", head="graph: g\nfolder: x\ndir: out\nsteps:\n")
    problems_of(
        file, "graph: g\nfolder: x\ndir: out\nsteps:\n- {name: a, worker: w}\n- {name: b}\n"
    )

    assert list(file.parent.iterdir()) == [file]


WORDS = ["graph: g\n", "steps:\n", "- ", "name: a\n", "  ", "worker: ", "depends_on: ", "[", "]"]
WORDS += ["{", "}", ", ", ": ", "\n", "'", '"', "#", "a", "b", "1", "0.5", ".inf", ".nan", "~", "|"]
WORDS += ["limits: ", "cost: ", "time: ", "review: ", "phases: ", "defaults: ", "stewards: ", "yes"]
WORDS += [
    "2026-01-01",
    "\t",
    "\\",
    "\\ud800",
    "\0",
    "\x85",
    "\u2028",
    "\ufeff",
    "? ",
    "<<",
    "&a ",
    "*a",
]
WORDS += ["parameters: ", "capability: ", "folder: ", "dir: ", "priority: ", "health: ", "=", "%"]


@pytest.mark.fuzz
@given(
    content=st.binary(max_size=200)
    | any_text(max_size=200).map(lambda text: text.encode(errors="replace"))
    | st.lists(st.sampled_from(WORDS), max_size=30).map(lambda words: "".join(words).encode())
    | st.lists(st.sampled_from(WORDS), max_size=12).map(
        lambda words: ("graph: g\nsteps:\n- name: a\n  worker: w\n  " + "".join(words)).encode()
    ),
    suffix=st.sampled_from([".yaml", ".json"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_content_is_a_graph_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    file = tmp_path / f"graph{suffix}"
    file.write_bytes(content)

    found = read_or_refusal(file)

    if isinstance(found, FileError):
        count = len(content.decode(errors="replace").splitlines()) + 1
        assert found.problems
        assert all(0 <= problem.line <= count for problem in found.problems)
        assert all(problem.text.isprintable() for problem in found.problems)
    else:
        assert found.steps
        for step in found.steps:
            NewJob.model_validate(step.payload)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | any_text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*names_in(WrittenStep), "cost", "time", "command", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@pytest.mark.fuzz
@given(
    top=st.dictionaries(st.sampled_from(names_in(WrittenGraph)), VALUES, max_size=3),
    fields=st.dictionaries(st.sampled_from(names_in(WrittenStep)), VALUES, max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_are_a_graph_or_refused(
    tmp_path: Path, top: dict[str, Any], fields: dict[str, Any]
) -> None:
    file = tmp_path / "graph.yaml"
    step = {"name": "a", "worker": "w"} | fields
    file.write_text(yaml.safe_dump({"graph": "g"} | top | {"steps": [step]}, allow_unicode=False))

    found = read_or_refusal(file)

    if isinstance(found, FileError):
        assert found.problems
    else:
        NewJob.model_validate(found.steps[0].payload)

"""The problems of graph files: each refusal, with its line.

In a graph below, the text after `#!` is a part of the problem of that line; several problems are
joined by ` & `.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.jobs.graph_files import HEAD, problems_of

QUOTES = "it is not text; put it in quotation marks"
TIME = "write whole seconds, or a time like 90s, 10m, 2h, 1h30m or 3d"
MONEY = "write US dollars like 5 or 0.05, with at most 6 decimals"
EXECUTORS = "write a command, or one of command, capability and model with what it is"
ONE_OF = "name one of command, capability and model"
ID = "cannot be an id: use letters, digits and ._~- with /"
PRIORITY = "write 0 (first) to 9 (last)"
LINES = "write lines of the form key: value"
NAME = "it is not a name; use up to 64 letters, digits and ._~-, a letter or digit first"

# A file that cannot be parsed has one problem.
UNREADABLE = [
    ("graph: g\n\tsteps: x\n", "2: it is not YAML: while scanning"),
    ("graph: g\nsteps: [", "2: it is not YAML: while parsing a flow node"),
    ("graph: g\n---\ngraph: h\n", "2: it is not YAML: expected a single document"),
    ("graph: g\ngraph: h\n", "2: 'graph' is there twice, first in line 1; remove one"),
    ("graph: g\nlimits: {\n cost: 1,\n cost: 2}", "4: 'cost' is there twice, first in line 3"),
    ("graph: &a g\nsteps: *a\n", "2: the alias *a is not allowed; write it out"),
    ("graph: g\n<<: {slots: 1}\n", "2: the merge << is not allowed; write it out"),
    ("graph: g\nsteps: !!set {a}\n", "2: the tag tag:yaml.org,2002:set is not allowed"),
    ("graph: g\n? [a]\n: b\n", "2: a key is a list or a mapping; write a word"),
    ("graph: g\nslots: \0\n", "2: it is not YAML: unacceptable character #x0000; take it out"),
    ("graph: g\nslots: \ufeff1\n", "2: it is not YAML: unacceptable character #xfeff"),
    ("graph: g\nsteps: " + "[" * 40, "2: it is nested deeper than 16 levels; make it flatter"),
    ("graph: g\nremind: 1:30\n", "2: 1:30 can be read as two numbers; put it in quotation"),
    ("graph: g\nremind: 010\n", "2: 010 can be read as two numbers; put it in quotation"),
    (f"graph: g\nslots: 0x{'f' * 4000}\n", "2: a number of 4002 characters is too long; put it"),
    ("graph: 2026-13-01\n", "1: it is not YAML: month must be in 1..12; correct it"),
]


@pytest.mark.parametrize(("text", "problem"), UNREADABLE, ids=[p for _, p in UNREADABLE])
def test_a_file_that_cannot_be_parsed_has_one_problem(
    tmp_path: Path, text: str, problem: str
) -> None:
    (only,) = problems_of(tmp_path / "graph.yaml", text)

    assert only.startswith(problem)


# A field of the step `a`, and its problem.
FIELDS = [
    ("description: 7", f"description: 7: {QUOTES}"),
    ("description: [a]", "description: ['a']: write a text"),
    ("details: {a: b}", "details: {'a': 'b'}: write a text"),
    ("objective: " + "x" * 64_001, "it has 64001 characters, at most 64000 are allowed"),
    ("acceptance: x", "acceptance: 'x': write a list"),
    ("acceptance: [a, '']", "acceptance (entry 2): '': it is empty; write a text"),
    ("acceptance: [~]", "acceptance (entry 1): None: write a text"),
    ("acceptance: [2026-01-01]", f"acceptance (entry 1): datetime.date(2026, 1, 1): {QUOTES}"),
    (f"acceptance: [{'x, ' * 101}]", "these are 101, at most 100 are allowed"),
    ("tags: [a, b c]", "tags (entry 2): 'b c': 'b c' is no tag: write one word of up to 40"),
    ("auto_approve: 1", "auto_approve: 1: write true or false"),
    ("manual: maybe", "manual: 'maybe': write true or false"),
    ("hold: 0.0", "hold: 0.0: write true or false"),
    ("queue: a b", f"queue: 'a b': {NAME}"),
    (f"queue: {'q' * 65}", NAME),
    ("queue: 7", f"queue: 7: {QUOTES}"),
    ("hours: 22-06", "hours: '22-06': write hours of the day, in UTC, like 22:00-06:00"),
    ("hours: 25:00-06:00", "hours: '25:00-06:00': write hours of the day"),
    ("priority: 10", f"priority: 10: {PRIORITY}"),
    ("priority: -1", f"priority: -1: {PRIORITY}"),
    ("priority: yes", f"priority: True: {PRIORITY}"),
    ("priority: 1.0", f"priority: 1.0: {PRIORITY}"),
    ("priority: .nan", f"priority: nan: {PRIORITY}"),
    ("priority: first", f"priority: 'first': {PRIORITY}"),
    ("limits: 5", f"limits: 5: {LINES}"),
    ("limits: [5]", f"limits: [5]: {LINES}"),
    ("limits: {1: x}", "limits: the key 1 is not text; known: cost, time, iterations"),
    (
        "limits: {tim: 1}",
        "'tim' is not a field here; did you mea",
    ),
    ("limits: {iterations: .inf}", "limits.iterations: inf: write a whole number"),
    ("limits: {iterations: true}", "limits.iterations: True: write a whole number"),
    ("limits: {iterations: 1.0}", "limits.iterations: 1.0: write a whole number"),
    ("limits: {iterations: '5'}", "limits.iterations: '5': write a whole number"),
    ("limits: {iterations: 0}", "limits.iterations: 0: write 1 or more"),
    ("limits: {iterations: 1000001}", "limits.iterations: 1000001: write 1000000 or less"),
    ("limits: {cost: 1000000000.000001}", "1000000000.000001: write 1000000000 or less"),
    ("limits: {time: 0}", "limits.time: 0: write 1s or more"),
    ("limits: {time: -5}", "limits.time: -5: write 1s or more"),
    ("limits: {time: 366d}", "limits.time: '366d': write 365d or less"),
    ("health: 30m", f"health: '30m': {LINES}"),
    (
        "health: {recoverys: 1}",
        "health: 'recoverys' is not a field here; did you mean 'recoveries'?",
    ),
    ("health: {recoveries: 101}", "health.recoveries: 101: write 100 or less"),
    ("retries: 101", "retries: 101: write 100 or less"),
    ("retry_delay: 2h", "retry_delay: '2h': write 1h or less"),
    ("remind: 10s", "remind: '10s': write 1m or more"),
    ("stewards: ann", "stewards: 'ann': write a list"),
    ("stewards: [a b]", f"stewards (entry 1): 'a b': {NAME}"),
    ("on_cancel: yes", "on_cancel: True: write starve or cancel"),
    ("folder: ~/x", "folder: '~/x': write the whole path; only a shell replaces ~"),
    ('dir: "a\\0"', "dir: 'a\\x00': no path has a NUL character; take it out"),
    ("dir: ''", "dir: '': it is empty; write a text"),
    (f"dir: {'d' * 2001}", "it has 2001 characters, at most 2000 are allowed"),
    ("review: 7", f"review: 7: {EXECUTORS}"),
    ("review: [a]", f"review: ['a']: {EXECUTORS}"),
    ("review: ''", "review: '': it is empty; write a text"),
    ("review: {}", f"review: {ONE_OF}"),
    ("review: {command: ~}", f"review: {ONE_OF}"),
    ("review: {command: x, model: y}", f"review: {ONE_OF}"),
    ("review: {command: x, parameters: {a: 1}}", "review: parameters are for a capability"),
    ("review: {command: true}", f"review.command: True: {QUOTES}"),
    ("review: {comand: x}", "'comand' is not a field here; did you mean 'command'?"),
    ("review: {capability: a b}", f"review.capability: 'a b': {NAME}"),
    (f"review: {{model: {'m' * 16_001}}}", "it has 16001 characters, at most 16000 are allowed"),
    ("review: {command: x, cost: cheap}", f"review.cost: 'cheap': {MONEY}"),
    ("review: {capability: c, parameters: [a]}", f"review.parameters: ['a']: {LINES}"),
    ("review: {capability: c, parameters: x}", f"review.parameters: 'x': {LINES}"),
    ("review: {capability: c, parameters: {7: x}}", "the key 7 is not text; put it in quotation"),
    ('review: {capability: c, parameters: {"a\\nb": .inf}}', "review.parameters.'a\\nb': .inf:"),
    (f"review: {{capability: c, parameters: {{{'k' * 99}: .inf}}}}", "k': .inf: JSON has no"),
    ("depends_on: b", "depends_on: 'b': write a list"),
    ("depends_on: [g/a/b]", "depends_on: there is no step 'a/b'"),
    ("depends_on: [a]", "depends_on: it depends on itself; remove that"),
    (f"depends_on: [h/{'x' * 200}]", "cannot be an id: longer than 200 characters"),
    ("desription: x", "'desription' is not a field here; did you mean 'description'?"),
    ("xyz: x", "is not a field here; known: name, depends_on, description, objective,"),
    ("~: x", "the key None is not text; known: name, depends_on"),
    ('details: "' + "\\x01" * 50_000 + '"', "bytes, the limit is 262144; pass a reference instead"),
]
COSTS = ["-1", "yes", "1e-7", ".inf", ".nan", "1_000", "0x10", "$5", "[5]", "{a: 5}", "''", "1e999"]
COSTS += ["5.0000001", "٣", "2026-01-01", "'5 '", "9999999999999", "'NaN'", "+5"]
FIELDS += [(f"limits: {{cost: {cost}}}", f": {MONEY}") for cost in COSTS]
TIMES = [
    "1.5h",
    "1.5",
    "30m1h",
    "1h 30m",
    "yes",
    ".inf",
    "''",
    "'90'",
    "[1]",
    "2w",
    "٣s",
    "h",
    "1H",
]
FIELDS += [(f"limits: {{time: {time}}}", f": {TIME}") for time in TIMES]


@pytest.mark.parametrize(("field", "problem"), FIELDS, ids=[f[:40] for f, _ in FIELDS])
def test_a_wrong_field_is_reported_with_its_line(tmp_path: Path, field: str, problem: str) -> None:
    step = f"  - name: a\n    worker: w\n    {field}\n"

    (only,) = problems_of(tmp_path / "graph.yaml", HEAD + step)

    line = 3 if "the limit is" in problem else 5  # the line of the step, or of its field
    assert only.startswith(f"{line}: step 'a': ")
    assert problem in only


GRAPHS = [
    "#! None: write lines",
    "- a #! ['a']: write lines of the form key: value",
    # The graph itself.
    """\
steps: #! name it: `graph: <name>`
- {name: a, worker: w}""",
    """\
limits: 5 #! limits: 5: write lines of the form key: value
graph: ~ #! name it: `graph: <name>`
slots: 0 #! slots: 0: write a whole number, 1 or more; leave it out to set no limit
stewards: #! no
- ann
- #! stewards (entry 2): None: write a text
- a b #! stewards (entry 3): 'a b': it is not a name
- 7 #! stewards (entry 4): 7: it is not text; put it in quotation marks
on_cancel: stop #! on_cancel: 'stop': write starve or cancel
remind: soon #! remind: 'soon': write whole seconds, or a time
description: [a] #! description: ['a']: write a text
folder: 7 #! folder: 7: it is not text
dir: ~/out #! dir: '~/out': write the whole path
defaults: [a] #! defaults: ['a']: write lines of the form key: value
step: #! 'step' is not a field here & did you mean 'steps'?
7: x #! the key 7 is not text; known: graph,
steps: {a: b} #! steps: write a list of at least one step""",
    "graph: 7 #! graph: 7: it is not text & steps: write a list of at least one step",
    "graph: a b #! graph: 'a b' cannot be an id: use letters & steps: write a list",
    """\
graph: a/b #! graph: 'a/b': a name has no slash; remove it
slots: yes #! slots: True: write a whole number
steps: [] #! steps: write a list of at least one step""",
    """\
graph: g
slots: 9999999 #! slots: 9999999: write 1000000 or less
limits:
  cost: much #! limits.cost: 'much': write US dollars
  tme: 2h #! limits: 'tme' is not a field here; did you mean 'time'?
  iterations: 0 #! limits.iterations: 0: write 1 or more
steps:
- {name: a, worker: w}""",
    # A problem of the defaults is reported once, not for each step.
    """\
graph: g
defaults:
  name: x #! defaults: 'name' is not a field here; known: description, objective,
  depends_on: [x] #! defaults: 'depends_on' is not a field here
  worker: w #! defaults: 'worker' is not a field here
  phases: [] #! defaults: 'phases' is not a field here
  dir: x #! defaults: 'dir' is not a field here
  priority: 10 #! defaults: priority: 10: write 0 (first) to 9 (last)
  revew: none #! defaults: 'revew' is not a field here & did you mean 'review'?
  limits: {cost: x} #! defaults: limits.cost: 'x': write US dollars
steps:
- {name: a, worker: w}
- {name: b, worker: w}""",
    # Steps and their names.
    """\
graph: g
steps:
- x #! step 1: 'x': write lines of the form key: value
- #! step 2: None: write lines of the form key: value
- [1] #! step 3: [1]: write lines of the form key: value
- {} #! step 4: name it: `name: <name>` & step 4: say who works: `worker: <command>`, or `phases`
- worker: w #! step 5: name it: `name: <name>`
- {x: 1, name: ~} #! step 6: name it & step 6: 'x' is not a field here & step 6: say who works
- worker: w
  name: yes #! step 7: name: True: it is not text; put it in quotation marks
- worker: w
  name: [a] #! step 8: name: ['a']: it is not text
- worker: w
  name: a/b #! step 9: name: 'a/b': a name has no slash; remove it
- worker: w
  name: -b #! step 10: name: 'g/-b' cannot be an id: use letters
- worker: w
  name: a
- {worker: w, name: a} #! step 'a': name: line 18 has a step of this name; choose another
- {worker: w, name: a} #! step 'a': name: line 18 has a step of this name; choose another
- name: b #! step 'b': say who works: `worker: <command>`, or `phases`
  wroker: x #! step 'b': 'wroker' is not a field here & did you mean 'worker'?
- {name: c, worker: ~} #! step 'c': say who works
- name: d
  worker: w
  phases: [{worker: w}] #! step 'd': it has worker and phases; remove one""",
    # Phases, workers and their parameters.
    """\
graph: g
steps:
- name: a
  phases: x #! step 'a': phases: 'x': write a list
- name: b
  phases: [] #! step 'b': phases: []: these are 0, at least 1 must be there
- name: c
  phases:
  - {name: x, worker: w}
  - {name: y} #! step 'c': phases (entry 2): say who works: `worker: <command>`
  - w #! step 'c': phases (entry 3): 'w': write lines of the form
  - {name: x, worker: w} #! step 'c': phases (entry 4).name: line 9 has a phase 'x' as well
  - {nam: z, worker: 7} #! step 'c': phases (entry 5): 'nam' is not a & (entry 5).worker: 7: write
  - #! step 'c': phases (entry 6): None: write lines of the form
- name: d
  phases:
  - worker: w
  - worker: x #! step 'd': phases (entry 2).name: line 17 has a phase 'default' as well
- name: e
  worker: #! step 'e': worker: name one of command, capability and model
    cost: 5
- name: f
  worker:
    capability: c
    parameters:
      a:
      - .inf #! step 'f': worker.parameters.a (entry 1): .inf: JSON has no such number
      - 1
      - -.NaN #! no
      - .nan #! step 'f': worker.parameters.a (entry 4): .nan: JSON has no such number
      b: 2026-01-01 #! step 'f': worker.parameters.b: 2026-01-01: a date is not JSON; put it in
      7: x #! step 'f': worker.parameters: the key 7 is not text; put it in quotation marks""",
    # Dependencies of a step.
    """\
graph: g
steps:
- {name: collect, worker: w}
- name: b
  worker: w
  depends_on:
  - colect #! step 'b': depends_on: there is no step 'colect'; did you mean 'collect'?
  - 7 #! step 'b': depends_on: 7: it is not text; put it in quotation marks
  - #! step 'b': depends_on: None: write a name
  - [x] #! step 'b': depends_on: ['x']: it is not text
  - '' #! step 'b': depends_on: there is no step ''
  - g/colect #! step 'b': depends_on: there is no step 'colect'; did you mean 'collect'?
  - x/a b #! step 'b': depends_on: 'x/a b' cannot be an id: use letters
  - x/y/z #! step 'b': depends_on: 'x/y/z': write <graph>/<step> for a job of another graph
  - /x #! step 'b': depends_on: '/x' cannot be an id: use letters
  - b #! step 'b': depends_on: it depends on itself; remove that
  - g/b #! step 'b': depends_on: it depends on itself; remove that
  - collect
  - g/collect #! step 'b': depends_on: 'g/collect' is there twice, first in line 18; remove one
  - h/x
  - h/x #! step 'b': depends_on: 'h/x' is there twice, first in line 20; remove one""",
    # One cycle for each component, at the dependency of its first step.
    """\
graph: g
steps:
- {name: free, worker: w}
- name: a
  worker: w
  depends_on:
  - free
  - c #! step 'a': depends_on: a -> c -> b -> a is a cycle; remove one of these dependencies
- {name: b, worker: w, depends_on: [a]}
- {name: c, worker: w, depends_on: [b]}
- {name: x, worker: w, depends_on: [c, y]} #! step 'x': depends_on: x -> y -> x is a cycle
- {name: y, worker: w, depends_on: [g/x, z]}
- {name: z, worker: w, depends_on: [x, a]}
- {name: last, worker: w, depends_on: [a, x]}""",
    # One wrong value does not make others wrong.
    """\
graph: 7 #! graph: 7: it is not text
steps:
- {name: a, worker: w}
- {name: b, worker: w, depends_on: [a, h/c]}""",
    # Cycles are found even if other values are wrong.
    """\
graph: 7 #! graph: 7: it is not text
steps:
- {name: a, depends_on: [b]} #! step 'a': say who works & step 'a': depends_on: a -> b -> a is
- {name: b, worker: 7, depends_on: [a, c]} #! worker: 7: write a comm & no step 'c'""",
]


@pytest.mark.parametrize("text", GRAPHS)
def test_all_problems_are_reported_at_once_each_with_its_line(tmp_path: Path, text: str) -> None:
    expected = [
        (number, part)
        for number, line in enumerate(text.split("\n"), start=1)
        for part in line.partition("#! ")[2].split(" & ")
        if part not in ("", "no")
    ]

    problems = problems_of(tmp_path / "graph.yaml", text)

    lines = [int(problem.partition(":")[0]) for problem in problems]
    assert lines == sorted(lines)
    assert len(problems) == len(set(problems)), "no problem is reported twice"
    for number, part in expected:
        assert any(p.startswith(f"{number}: ") and part in p for p in problems), part
    for problem in problems:
        line, _, rest = problem.partition(": ")
        assert any(int(line) == at and part in rest for at, part in expected), problem


def test_a_long_cycle_is_shown_by_its_ends(tmp_path: Path) -> None:
    steps = [f"{{name: s{n}, worker: w, depends_on: [s{(n - 1) % 100}]}}" for n in range(100)]

    (only,) = problems_of(tmp_path / "graph.yaml", HEAD + "".join(f"- {step}\n" for step in steps))

    assert only.startswith("3: step 's0': depends_on: s0 -> s99 -> s98 ->")
    assert " -> ... (81 more) ... -> " in only
    assert only.endswith("-> s1 -> s0 is a cycle; remove one of these dependencies")

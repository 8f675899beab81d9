"""The file of a plan: its fields, its stored form, and the problems that are reported."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from interlock.kernel.errors import InvalidPayloadError
from interlock.systems.runs.plan.file import BYTES_MAX, read_plan, read_plan_fields
from interlock.systems.runs.plan.model import (
    BudgetPolicy,
    FailurePolicy,
    LoopEnd,
    OnFailure,
    OutputFormat,
    PlanBudget,
    PlannedCodon,
    PlannedLoop,
    PlannedSentinel,
    PlannedStrategy,
    RunPlan,
    SentinelEventName,
    SessionChoice,
)
from interlock.systems.runs.plan.rig import RigCommand, RigCopy, RigFolder
from interlock.workers.specs.problems import FileError
from tests.damage import chances, damaged, torn

WHOLE = """\
plan: clean-a-dataset
environment: {KEY: value}
budget: {cost_usd: 0.1, duration_s: 3600, output_tokens: 100000, exceeded: fail}
sentinels:
  watcher:
    on: [costs_updated, assistant_message]
    strategy: {debounce_s: 0.5}
    command: python watch.py
    required: true
    timeout_s: 5
  asker:
    sequence: [tool_started, tool_started, tool_completed]
    strategy: {window_s: 60}
    model: provider:name
    prompt: "What of it?"
codons:
  - codon: fetch
    rig:
      - copy: {from: ./raw.csv, to: work//raw.csv}
      - command: {run: sh -c x, in: copied, timeout_s: 60}
        allow_failure: true
    command: python clean.py
    speaks: claude
    on_failure: {retry: {attempts: 5, delay_ms: 0}}
    budget: {cost_usd: 2}
    sentinels: [watcher, asker]
    timeout_s: 3600
    idle_s: 120
    environment: {KEY: other, EMPTY: ""}
  - loop: polish
    until: {context_exceeded: true, iterations: 50}
    codons:
      - codon: rub
        model: provider:name
        prompt: Rub it.
        continuation: continue_previous
        on_failure: ignore
"""
CODON = "  - {codon: c, command: x, %s}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def read(text: str, workspace: Path) -> RunPlan:
    path = workspace.parent / "PLAN.yaml"
    path.write_text(text)
    return read_plan(path, workspace)


def refusals(text: str, workspace: Path) -> list[str]:
    """Return the problems of a plan, each as `12: sentence`."""
    with pytest.raises(FileError) as refused:
        read(text, workspace)
    assert len(str(refused.value).splitlines()) == len(refused.value.problems)
    problems = refused.value.problems
    return [f"{one.line}: {one.text}" if one.line else one.text for one in problems]


def of_codon(fields: str, workspace: Path) -> list[str]:
    """Return the problems of a plan with one codon, without the number of the line."""
    found = refusals(f"plan: p\ncodons:\n{CODON % fields}", workspace)
    assert all(one.startswith("3: codon 'c': ") for one in found), found
    return [one.removeprefix("3: codon 'c': ") for one in found]


def test_a_plan_is_read_whole(workspace: Path) -> None:
    plan = read(WHOLE, workspace)

    watcher, asker = plan.sentinels
    fetch, polish = plan.steps
    assert (plan.name, plan.environment) == ("clean-a-dataset", {"KEY": "value"})
    assert plan.budget == PlanBudget(
        cost_micro=100_000, duration_s=3_600, output_tokens=100_000, exceeded=BudgetPolicy.FAIL
    )
    assert watcher == PlannedSentinel(
        id="watcher",
        on=(SentinelEventName.COSTS_UPDATED, SentinelEventName.ASSISTANT_MESSAGE),
        strategy=PlannedStrategy(debounce_ms=500),
        command="python watch.py",
        required=True,
        timeout_s=5,
    )
    assert asker == PlannedSentinel(
        id="asker",
        sequence=(
            SentinelEventName.TOOL_STARTED,
            SentinelEventName.TOOL_STARTED,
            SentinelEventName.TOOL_COMPLETED,
        ),
        strategy=PlannedStrategy(window_ms=60_000),
        model="provider:name",
        prompt="What of it?",
    )
    assert fetch == PlannedCodon(
        id="fetch",
        rig=(
            RigCopy(source="raw.csv", target="work/raw.csv"),
            RigCommand(run="sh -c x", folder=RigFolder.COPIED, timeout_s=60, allow_failure=True),
        ),
        command="python clean.py",
        speaks=OutputFormat.CLAUDE,
        on_failure=OnFailure(policy=FailurePolicy.RETRY, attempts=5, delay_ms=0),
        budget=PlanBudget(cost_micro=2_000_000),
        sentinels=("watcher", "asker"),
        timeout_s=3_600,
        idle_s=120,
        environment={"KEY": "other", "EMPTY": ""},
    )
    rub = PlannedCodon(
        id="rub",
        model="provider:name",
        prompt="Rub it.",
        continuation=SessionChoice.CONTINUE_PREVIOUS,
        on_failure=OnFailure(policy=FailurePolicy.IGNORE),
    )
    until = LoopEnd(context_exceeded=True, iterations=50)
    assert polish == PlannedLoop(id="polish", until=until, codons=(rub,))
    assert [one.id for one in plan.codons()] == ["fetch", "rub"]
    assert plan.sentinel("asker") is asker


def test_fields_that_are_not_written_have_their_defaults(workspace: Path) -> None:
    text = (
        "plan: p\nbudget:\nsentinels: {s: {on: [progress], command: x}}\ncodons:\n"
        "  - {codon: c, command: x, on_failure: {retry: }, budget: {output_tokens: 1}}\n"
        "  - {loop: l, until: context_exceeded, codons: [{codon: d, command: x}]}\n"
    )

    plan = read(text, workspace)

    c, d = plan.codons()
    assert (plan.budget, plan.environment, plan.sentinels[0].strategy) == (
        None,
        {},
        PlannedStrategy(),
    )
    assert (plan.sentinels[0].required, plan.sentinels[0].timeout_s) == (False, 30)
    assert (c.on_failure.attempts, c.on_failure.delay_ms) == (3, 1_000)
    assert c.budget is not None
    assert c.budget.exceeded is BudgetPolicy.COMPLETE
    assert (d.on_failure.policy, d.continuation, d.speaks) == ("abort", "fresh", "plain")
    assert (d.timeout_s, d.idle_s, d.rig, d.sentinels) == (None, 600, (), ())
    assert isinstance(plan.steps[1], PlannedLoop)
    assert plan.steps[1].until == LoopEnd(context_exceeded=True)


def test_a_plan_is_the_same_after_it_was_stored(workspace: Path) -> None:
    plan = read(WHOLE, workspace)

    stored = plan.stored()

    assert RunPlan.of(json.loads(json.dumps(stored))) == plan
    rub = {
        "id": "rub",
        "model": "provider:name",
        "prompt": "Rub it.",
        "continuation": "continue_previous",
        "on_failure": {"policy": "ignore"},
    }
    assert stored["steps"][1]["codons"] == [rub], "what is as always is not stored"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"id": "c", "command": "x", "model": "a:b", "prompt": "x"}, "take one out"),
        ({"id": "c"}, "write what it runs"),
        ({"id": "c", "command": "x", "bugdet": {}}, "Extra inputs"),
        ({"id": "c#0", "command": "x"}, "should match pattern"),
        ({"id": "l", "until": {}, "codons": [{"id": "c", "command": "x"}]}, "when it ends"),
    ],
)
def test_a_record_that_is_no_plan_is_refused(step: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidPayloadError, match=problem):
        RunPlan.of({"name": "p", "steps": [step]})


def test_nothing_of_a_plan_can_be_changed(workspace: Path) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read(WHOLE, workspace).name = "other"


def test_all_problems_are_reported_at_once_with_their_lines(workspace: Path) -> None:
    text = """\
plan: Clean it
bugdet: {cost_usd: 1}
sentinels:
  watcher:
    on: [cost_updated]
    strategy: {debounce_s: 301}
codons:
  - codon: fetch
    rig:
      - copy: {from: ../raw.csv, to: work/raw.csv}
      - allow_failure: true
    command: x
    model: provider:name
    continuation: continue_previous
    budget: {cost_usd: -1}
    sentinels: [wacher]
  - loop: polish
    codons:
      - codon: fetch
      - loop: inner
        until: {iterations: 1}
  - command: x
"""
    found = refusals(text, workspace)

    assert [int(one.partition(":")[0]) for one in found] == [
        *(1, 2, 4, 5, 6),
        *(8, 10, 11, 14, 15, 16),
        *(17, 19, 19, 20, 22),
    ]
    for line, words in [
        ("2:", "did you mean 'budget'?"),
        ("4:", "sentinel 'watcher': write what it runs"),
        ("5:", "did you mean 'costs_updated'?"),
        ("6:", "sentinel 'watcher': strategy.debounce_s: 301: write 300 or less"),
        ("8:", "codon 'fetch': it has a command and a model; take one out"),
        ("10:", "rig (entry 1).copy.from: '../raw.csv': it goes up with .."),
        ("14:", "no codon comes before the first one"),
        ("16:", "did you mean 'watcher'?"),
        ("17:", "loop 'polish': write when it ends"),
        ("19:", "line 8 has a codon or loop of this name"),
        ("20:", "a loop cannot be in a loop"),
        ("22:", "codon 3: name it: `codon: <name>`"),
    ]:
        assert any(one.startswith(line) and words in one for one in found), (line, words)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: None: write lines of the form key: value"),
        ("[]", "1: []: write lines of the form key: value"),
        ("plan: p", "1: write `codons:` and a list of at least one codon"),
        ("plan: p\ncodons:", "2: write `codons:` and a list of at least one codon"),
        ("plan: p\ncodons: []", "2: codons: []: it is empty; write at least one codon"),
        ("plan: p\ncodons: {a: b}", "2: codons: {'a': 'b'}: write a list"),
        ("codons: [{codon: c, command: x}]", "1: name the plan: `plan: <name>`"),
        ("plan: p\nplan: q", "2: 'plan' is there twice, first in line 1; remove one"),
        ("plan: [", "1: it is not YAML: "),
        ("plan: p\ncodons: [*x]", "2: the alias *x is not allowed; write it out"),
        ("plan: p\ncodons: [x]", "2: 'x': write lines of the form key: value"),
    ],
)
def test_what_is_no_plan_at_all_is_refused(text: str, problem: str, workspace: Path) -> None:
    (found,) = refusals(text, workspace)

    assert found.replace("codon 1: ", "").startswith(problem)


def test_a_file_that_cannot_be_read_is_refused(workspace: Path) -> None:
    with pytest.raises(FileError, match=r"no\.yaml: cannot be read: No such file"):
        read_plan(workspace / "no.yaml", workspace)
    (found,) = refusals(f"plan: p\n#{'x' * BYTES_MAX}", workspace)
    assert f"has more than {BYTES_MAX} bytes; split it into plans of several runs" in found


def test_a_plan_is_refused_that_a_record_could_not_keep(workspace: Path) -> None:
    # A control character is three times as long in a record.
    command = '"' + "x\\a" * 2_600 + '"'
    codons = "".join(f"  - {{codon: c{n}, command: {command}}}\n" for n in range(16))

    (found,) = refusals(f"plan: p\ncodons:\n{codons}", workspace)

    assert "the limit is 200000" in found


def test_too_many_codons_are_refused_those_of_loops_included(workspace: Path) -> None:
    many = "".join(f"  - {{codon: c{n}, command: x}}\n" for n in range(499))
    loop = "  - {loop: l, until: {iterations: 1}, codons: [%s]}\n"
    one, other = "{codon: one, command: x}", "{codon: other, command: x}"
    most = f"plan: p\ncodons:\n{many}{loop % one}"
    expected = ["2: codons: these are 501, at most 500 are allowed"]

    assert len(list(read(most, workspace).codons())) == 500
    for more in (most.replace(one, f"{one}, {other}"), f"{most}  - {other}\n"):
        assert [found.split(";")[0] for found in refusals(more, workspace)] == expected


def test_a_codon_names_a_sentinel_once(workspace: Path) -> None:
    watching = "sentinels: {s: {on: [progress], command: x}}"
    text = f"plan: p\n{watching}\ncodons:\n{CODON % 'sentinels: [s, s]'}"

    assert refusals(text, workspace) == [
        "4: codon 'c': sentinels (entry 2): s is listed twice; take one out"
    ]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("/etc/passwd", "it is absolute"),
        ("a/../../b", "it goes up with .."),
        ("a/..", "it goes up with .."),
        ("~/a", "only a shell replaces ~"),
        (".", "it is the whole workspace"),
        (".git/config", ".git is reserved for checkpoints"),
        ("a/.GIT/hooks", ".GIT is reserved for checkpoints"),
        (".interlock", ".interlock is reserved for checkpoints"),
        ("out/a", "a link leads out of the workspace"),
        ("deep/a", "a link leads out of the workspace"),
        ("hidden/x", ".interlock is reserved for checkpoints"),
        ("round", "keep them apart"),
        ('"a\\0b"', "no path has a NUL character"),
        ("3", "write a path inside the workspace"),
        ("[a]", "write a path inside the workspace"),
    ],
)
def test_a_path_that_is_not_within_the_workspace_is_refused(
    written: str, problem: str, workspace: Path
) -> None:
    (workspace / "out").symlink_to(workspace.parent)
    (workspace / "deep").symlink_to("out")
    (workspace / "hidden").symlink_to(".interlock/kept")
    (workspace / "round").symlink_to("data")

    for one in (f"from: {written}, to: data", f"from: data, to: {written}"):
        found = of_codon(f"rig: [{{copy: {{{one}}}}}]", workspace)
        assert len(found) == 1
        assert problem in found[0]


def test_links_within_the_workspace_are_followed(workspace: Path) -> None:
    (workspace / "near").symlink_to("data")
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    text = "plan: p\ncodons:\n" + CODON % "rig: [{copy: {from: near/a, to: .gitignore}}]"
    path = workspace.parent / "PLAN.yaml"
    path.write_text(text)

    (codon,) = read_plan(path, link).codons()

    assert codon.rig == (RigCopy(source="near/a", target=".gitignore"),)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("budget: {cost_usd: 0}", "budget.cost_usd: 0: write 0.000001 or more"),
        ("budget: {cost_usd: -0.1}", "budget.cost_usd: -0.1: write US dollars like 5"),
        ("budget: {cost_usd: .inf}", "budget.cost_usd: inf: write US dollars like 5"),
        ("budget: {cost_usd: .nan}", "budget.cost_usd: nan: write US dollars like 5"),
        ("budget: {cost_usd: 0.0000001}", "with at most 6 decimals"),
        ("budget: {cost_usd: yes}", "budget.cost_usd: True: write US dollars like 5"),
        ("budget: {duration_s: 0}", "budget.duration_s: 0: write 1 or more"),
        ("budget: {duration_s: 1.5}", "budget.duration_s: 1.5: write a whole number"),
        ("budget: {output_tokens: 0}", "budget.output_tokens: 0: write 1 or more"),
        ("budget: {exceeded: fail}", "budget: it limits nothing; write cost_usd"),
        ("budget: {cost_usd: 1, exceeded: stop}", "'stop': write complete or fail"),
        ("budget: {cost: 1, duration_s: 1}", "did you mean 'cost_usd'?"),
        ("timeout_s: 0", "timeout_s: 0: write 1 or more"),
        ("idle_s: 86401", "idle_s: 86401: write 86400 or less"),
        ("idle_s: true", "idle_s: True: write a whole number"),
        ("continuation: again", "'again': write fresh or continue_previous"),
        ("speaks: [plain]", "speaks: ['plain']: write plain, interlock or claude"),
        ("on_failure: again", "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"),
        ("on_failure: retry", "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"),
        ("on_failure: {}", "write abort, ignore or {retry: {attempts: <n>, delay_ms: <ms>}}"),
        ("on_failure: {attempts: 3}", "'attempts' is not a field here; known: retry"),
        ("on_failure: {retry: {attempts: 0}}", "retry.attempts: 0: write 1 or more"),
        ("on_failure: {retry: {attempts: 11}}", "retry.attempts: 11: write 10 or less"),
        ("on_failure: {retry: {delay_ms: 60001}}", "delay_ms: 60001: write 60000 or less"),
        ("on_failure: {retry: {delay_ms: -1}}", "delay_ms: -1: write 0 or more"),
        ("on_failure: {retry: 3}", "on_failure.retry: 3: write lines of the form key: value"),
        ("on_failure: {retry: 0}", "on_failure.retry: 0: write lines of the form key: value"),
        ("environment: {PORT: 80}", "environment.PORT: 80: it is not text; put it in quotation"),
        ("environment: {A B: x}", "environment: 'A B': it cannot be a variable"),
        ("environment: {no: x}", "environment: False: it cannot be a variable"),
        (
            'environment: {A: "a\\0"}',
            "environment.A: 'a\\x00': no command and no setting can have a NUL",
        ),
        ("environment: [A]", "write lines of the form key: value"),
        ("sentinels: [s]", "'s' is no sentinel of this plan; write it below `sentinels:`"),
        ("sentinels: s", "sentinels: 's': write a list"),
        ("prompt: x", "a prompt is for a model"),
        ("rig: []", "rig: []: it is empty; write at least one item"),
        ("rig: [{}]", "rig (entry 1): write one thing, `copy: {from: <path>, to: <path>}`"),
        ("rig: [{command: {in: workspace}}]", "write what to run: `run: <command>`"),
        ("rig: [{command: {run: x, in: copied}}]", "command.in: no copy comes before it"),
        ("rig: [{command: x}]", "rig (entry 1).command: 'x': write lines of the form key: value"),
        ("rig: [{copy: {to: a}}]", "rig (entry 1).copy: write what to copy: `from: <path>`"),
        ("rig: [{copy: {from: a}}]", "rig (entry 1).copy: write where to: `to: <path>`"),
        (
            "rig: [{copy: {from: a, to: a/b}}]",
            "one of a and a/b is inside the other; keep them apart",
        ),
        (
            "rig: [{copy: {from: a/b, to: a}}]",
            "one of a/b and a is inside the other; keep them apart",
        ),
        ("rig: [{copy: {from: a, to: b}, allow_failure: 1}]", "allow_failure: 1: write true or"),
        ('rig: [{command: {run: "a\\0"}}]', "command.run: 'a\\x00': no command and no setting"),
    ],
)
def test_what_a_codon_cannot_have_is_refused(fields: str, problem: str, workspace: Path) -> None:
    (found,) = of_codon(fields, workspace)

    assert problem in found


@pytest.mark.parametrize(
    ("codon", "problem"),
    [
        ("{codon: c}", "write what it runs: `command: <command>`, or `model` and `prompt`"),
        (
            "{codon: c, command: }",
            "write what it runs: `command: <command>`, or `model` and `prompt`",
        ),
        ("{codon: c, command: ' '}", "command: ' ': it is empty; write a text"),
        ("{codon: c, command: [x]}", "command: ['x']: write a text"),
        ("{codon: c, model: a:b}", "write what the model is asked: `prompt: <text>`"),
        ("{codon: c, model: a, prompt: x}", "model: 'a': write it as <provider>:<name>"),
        ("{codon: c, model: a:b, prompt: x, speaks: plain}", "speaks is for a command"),
        ("{codon: c#0, command: x}", "the sign # is for the iterations of loops"),
        ("{codon: C, command: x}", "write up to 63 small letters, digits and -"),
        ("{codon: 0c, command: x}", "write up to 63 small letters, digits and -"),
        (f"{{codon: {'c' * 64}, command: x}}", "write up to 63 small letters, digits and -"),
        ("{codon: no, command: x}", "codon: False: it is not text; put it in quotation marks"),
        ("{loop: l, codons: [{codon: c, command: x}]}", "write when it ends"),
        ("{loop: l, until: {iterations: 2}}", "write `codons:` and a list of at least one codon"),
        ("{loop: l, until: {iterations: 2}, codons: []}", "write at least one codon"),
    ],
)
def test_a_step_that_cannot_be_is_refused(codon: str, problem: str, workspace: Path) -> None:
    (found,) = refusals(f"plan: p\ncodons:\n  - {codon}\n", workspace)

    assert found.startswith("3: ")
    assert problem in found


@pytest.mark.parametrize(
    ("until", "problem"),
    [
        ("{}", "until: write {iterations: <n>} or context_exceeded"),
        ("3", "until: 3: write {iterations: <n>} or context_exceeded"),
        ("{iterations: 0}", "until.iterations: 0: write 1 or more"),
        ("{iterations: 10001}", "until.iterations: 10001: write 10000 or less"),
        ("{context_exceeded: false}", "until.context_exceeded: False: write true"),
        ("{iteration: 3}", "did you mean 'iterations'?"),
    ],
)
def test_a_loop_without_a_valid_end_is_refused(until: str, problem: str, workspace: Path) -> None:
    loop = f"{{loop: l, until: {until}, codons: [{{codon: c, command: x}}]}}"
    found = refusals(f"plan: p\ncodons: [{loop}]\n", workspace)

    assert any(problem in one for one in found)


@pytest.mark.parametrize(
    ("sentinel", "problem"),
    [
        ("{command: x}", "write what it watches: `on: [<event>]`"),
        ("{on: [], command: x}", "on: []: it is empty; write at least one event"),
        ("{on: [progress], sequence: [progress], command: x}", "it has on and sequence"),
        (
            "{on: [progress, progress], command: x}",
            "on: ['progress', 'progress']: progress is listed more than once",
        ),
        ("{on: progress, command: x}", "on: 'progress': write a list"),
        (
            "{on: [[progress]], command: x}",
            "on (entry 1): ['progress']: write codon_started, ",
        ),
        ("{true: [progress], command: x}", "the key True is not text"),
        ("{on: [progress]}", "write what it runs"),
        ("{on: [progress], command: x, speaks: plain}", "'speaks' is not a field here"),
        ("{on: [progress], command: x, required: 1}", "required: 1: write true or false"),
        ("{on: [progress], command: x, timeout_s: 0}", "timeout_s: 0: write 1 or more"),
        ("{on: [progress], command: x, strategy: late}", "strategy: 'late': write immediate, "),
        ("{on: [progress], command: x, strategy: {}}", "strategy: write immediate, "),
        ("{on: [progress], command: x, strategy: {count: 0}}", "count: 0: write 1 or more"),
        ("{on: [progress], command: x, strategy: {count: 1001}}", "1001: write 1000 or less"),
        ("{on: [progress], command: x, strategy: {window_s: 3601}}", "write 3600 or less"),
        ("{on: [progress], command: x, strategy: {window_s: 0}}", "write 0.001 or more"),
        ("{on: [progress], command: x, strategy: {window_s: -1}}", "write seconds like 5 or"),
        ("{on: [progress], command: x, strategy: {count: 1, window_s: 1}}", "choose one of"),
        ("x", "write lines of the form key: value"),
    ],
)
def test_what_a_sentinel_cannot_have_is_refused(
    sentinel: str, problem: str, workspace: Path
) -> None:
    codons = "codons: [{codon: c, command: x, sentinels: [s]}]"
    found = refusals(f"plan: p\n{codons}\nsentinels:\n  s: {sentinel}\n", workspace)

    assert any(one.startswith("4: sentinel 's': ") and problem in one for one in found), found


def test_a_sentinel_is_named_as_codons_are(workspace: Path) -> None:
    watching = "{on: [progress], command: x}"
    text = f"plan: p\ncodons: [{{codon: c, command: x}}]\nsentinels:\n  S: {watching}\n"

    assert "write up to 63 small letters" in refusals(text, workspace)[0]
    text = text.replace("S:", "no:")
    assert "False: it is not text; put it in quotation marks" in refusals(text, workspace)[0]


def test_names_are_used_once_also_across_loops(workspace: Path) -> None:
    text = """\
plan: p
codons:
  - {codon: a, command: x}
  - {loop: a, until: {iterations: 1}, codons: [{codon: b, command: x}]}
  - {loop: l, until: {iterations: 1}, codons: [{codon: b, command: x}, {codon: l, command: x}]}
"""
    found = refusals(text, workspace)

    assert [one.split(";")[0] for one in found] == [
        "4: loop 'a': loop: line 3 has a codon or loop of this name",
        "5: codon 'b': codon: line 4 has a codon or loop of this name",
        "5: codon 'l': codon: line 5 has a codon or loop of this name",
    ]


def test_only_the_very_first_codon_has_nothing_to_continue(workspace: Path) -> None:
    going_on = "{codon: %s, command: x, continuation: continue_previous}"
    loop = "{loop: l, until: {iterations: 2}, codons: [%s]}"
    first = loop % (going_on % "a")

    assert "no codon comes before" in refusals(f"plan: p\ncodons: [{first}]", workspace)[0]
    then = loop % f"{{codon: a, command: x}}, {going_on % 'b'}"
    assert read(f"plan: p\ncodons: [{then}, {going_on % 'c'}]", workspace).name == "p"


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_fields_that_are_nearly_a_plan_are_one_or_refused(workspace: Path, chance: Random) -> None:
    whole = yaml.safe_load(WHOLE)

    with suppress(InvalidPayloadError):
        read_plan_fields(damaged(whole, chance), workspace)
    text = torn(WHOLE.encode(), chance)
    file = workspace / "plan.yaml"
    file.write_bytes(text)
    with suppress(FileError):
        read_plan(file, workspace)

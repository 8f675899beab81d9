"""Where files lie, what they are called, and which of them may name a system (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from interlock.extras import EXTRAS
from interlock.kernel.machines import MACHINES
from interlock.systems import NAMES
from interlock.workers.engine.builtin import BUILTIN
from interlock.workers.engine.system import System, load
from interlock.workers.systems import handlers, sweeps, systems

ROOT = Path(__file__).resolve().parent.parent
CODE = ROOT / "interlock"
ENTRIES = {"alone", "__init__", "main", "intake", "flower", "cli"}
MODULES = ENTRIES | {"producer_message", "systems", "client", "config", "inherited", "layout"}
MODULES |= {"redaction", "setting_values", "text", "up_file"}
FOLDERS = {
    "access",
    "api",
    "console",
    "ops",
    "supervision",
    "terminal",
    "engine",
    "gateways",
    "mcp",
    "processes",
    "remote",
    "specs",
    "files",
}
# Homeless code under another name: each of these hides a noun that is missing.
REFUSED = {"utils", "util", "common", "helpers", "base", "misc", "types", "manager", "core"}
# The core: it gets what it shows of systems from the registry, and names none.
CORE = (
    "interlock/[!_]*.py",
    "interlock/__main__.py",
    *(
        f"interlock/{folder}/**/*.py"
        for folder in ("git", "kernel", "system", "testing", "workers", "workflow")
    ),
)
# As parts of an identifier these mean one system; `run`, `task` or `thread` mean other things too.
UNMISTAKABLE = {"job", "jobs", "codon", "codons", "workspace", "workspaces"}
# The same word with another meaning, by file and word.
HISTORY = "what machines of past formats were called"
OTHER_MEANINGS = {
    ("interlock/kernel/store/format_steps.py", "task"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "turn"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "job"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "graph"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "loop"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "run"): HISTORY,
    ("interlock/kernel/store/format_steps.py", "codon"): HISTORY,
    ("interlock/kernel/store/metrics.py", "run"): "a run of a sweep",
    ("interlock/testing/walk_kit.py", "run"): "what an attempt of a walk does",
    ("interlock/workers/api/models.py", "thread"): "an example in the document of the API",
    ("interlock/workers/mcp/tools.py", "agent"): "who sends an example, as a request says it",
    ("interlock/workers/ops/deployment.py", "threads"): "Celery's pool of threads",
    ("interlock/workers/ops/page.py", "runs"): "the runs of an effect, as `describe` has them",
    ("interlock/workers/ops/description.py", "runs"): "the runs of an effect",
    ("interlock/workers/ops/up.py", "task"): "a field that says what a process works on",
    ("interlock/workers/remote/output_calls.py", "run"): "a parameter of the API: which output",
    ("interlock/workers/engine/sweeper.py", "task"): "the key of Celery's schedule",
    ("interlock/workers/engine/consumer.py", "task"): "the name of Celery's task in its messages",
    ("interlock/git/errors.py", "identity"): "who git says has made a commit",
}
MACHINE_MODULES = {"State", "Trigger"}  # one of each in every machine
CLASS = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)


def sources(*patterns: str) -> list[Path]:
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return [path for path in found if "__pycache__" not in path.parts]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- where files lie ---------------------------------------------------------------------------


def test_the_project_is_made_of_the_libraries_and_folders_that_it_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {re.split(r"[\[<>=]", one)[0] for one in project["dependencies"]}

    assert {"celery", "redis", "kombu", "pydantic", "flower", "tenacity"} <= named
    top = ("pyproject.toml", "workers", "kernel", "tests", "deploy")
    assert all((ROOT / name).exists() for name in (*top, "docker-compose.yml", "README.md"))


def test_at_the_top_of_workers_lie_entries_floors_and_systems_only() -> None:
    folders = {path.name for path in (CODE / "workers").iterdir() if path.is_dir()}

    assert {path.stem for path in (CODE / "workers").glob("*.py")} == MODULES
    assert folders - {"__pycache__"} == FOLDERS


@pytest.mark.parametrize("name", NAMES)
def test_a_system_has_the_same_name_and_shape_everywhere(name: str) -> None:
    for folder in ("interlock/systems", "tests/systems", "tests/end_to_end"):
        assert (ROOT / folder / name).is_dir(), f"{folder}/{name}/ is missing"
    for file in ("system.py", "client.py", "cli.py", "effects/__init__.py", "machines/effects.py"):
        assert (CODE / "systems" / name / file).is_file(), (
            f"interlock/systems/{name}/{file} is missing"
        )


def test_the_systems_that_are_installed_are_the_folders_of_systems() -> None:
    folders = {path.parent.name for path in sources("interlock/systems/*/system.py")}

    assert folders == set(NAMES)


def test_every_machine_is_a_folder_of_its_system() -> None:
    found = {
        path.parent.name: path.parents[2].name
        for path in sources("interlock/systems/*/machines/*/table.py")
    }

    assert set(found) == set(MACHINES)
    assert set(found.values()) == set(NAMES)


@pytest.mark.parametrize("system", [BUILTIN, *systems()], ids=lambda system: system.name)
def test_an_effect_is_a_file_of_its_own_name(system: System) -> None:
    folder = CODE / Path(*system.effects.split(".")[1:])

    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(
        load(f"{system.effects}:HANDLERS")
    )


def test_a_sweep_is_a_file_of_its_own_name() -> None:
    found = sources("interlock/*/*/sweeps/*.py")

    assert {path.stem for path in found} - {"__init__"} == {sweep.name for sweep in sweeps()}


@pytest.mark.parametrize("folder", ["kernel", "workers", "systems", "git"])
def test_tests_mirror_the_folders_of_the_code(folder: str) -> None:
    code, tests = CODE / folder, ROOT / "tests" / folder
    known = {path.relative_to(code) for path in code.rglob("*") if path.is_dir()}
    # A module whose tests need more than a file has a folder of its own name.
    known |= {path.relative_to(code).with_suffix("") for path in code.rglob("*.py")}
    # The published tables of a system, as data.
    known |= {Path(name) / "golden" for name in NAMES}

    strange = [
        shown(path)
        for path in sorted(tests.rglob("*"))
        if path.is_dir() and path.name != "__pycache__" and path.relative_to(tests) not in known
    ]
    assert not strange


def test_no_module_is_called_after_nothing() -> None:
    assert not [shown(path) for path in sources("interlock/**/*.py") if path.stem in REFUSED]


def test_every_folder_of_code_is_a_package_that_says_what_it_is_for() -> None:
    folders = {path.parent for path in sources("interlock/**/*.py")}

    silent = [
        shown(folder)
        for folder in sorted(folders)
        if not (folder / "__init__.py").exists()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    ]
    assert not silent


# --- names -------------------------------------------------------------------------------------


def test_a_class_name_stands_once() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sources("interlock/**/*.py"):
        machine = path.match("interlock/systems/*/machines/*/*.py")
        for name in CLASS.findall(path.read_text("utf-8")):
            if not (machine and name in MACHINE_MODULES):
                found[name].append(shown(path))

    assert not {name: places for name, places in found.items() if len(places) > 1}


def named(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each mention of a system in a file: an import from it, or its name as a string."""
    tree = ast.parse(path.read_text("utf-8"))
    words = {*NAMES, *MACHINES}
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    homes = tuple(f"interlock.systems.{name}" for name in NAMES)
    for node in ast.walk(tree):
        identifiers = [getattr(node, field, None) for field in ("id", "name", "attr", "arg")]
        for written in (one for one in identifiers if isinstance(one, str)):
            parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", written).lower().split("_")
            if UNMISTAKABLE & set(parts):
                yield getattr(node, "lineno", 0), f"calls something {written}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(homes):
            yield node.lineno, f"imports {node.module}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            written = node.value
            if id(node) not in documentation and (
                (written in words and (shown(path), written) not in OTHER_MEANINGS)
                or written.startswith(homes)
            ):
                yield node.lineno, f"says {written!r}"


def test_the_core_names_no_system() -> None:
    faults = [
        f"{shown(path)}:{line} {fault}" for path in sources(*CORE) for line, fault in named(path)
    ]

    assert not faults, "let the registry say it: a field of System (interlock/workers/engine)"


def test_the_public_names_of_systems_are_rows_of_a_table() -> None:
    tree = ast.parse((CODE / "__init__.py").read_text("utf-8"))
    imported = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    (table,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_OF_SYSTEMS"
    )

    assert not [name for name in imported if name.startswith("interlock.systems")]
    assert set(table) <= set(NAMES)


def test_every_system_has_an_extra_and_all_brings_each() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("interlock[").removesuffix("]").split(","))

    assert set(NAMES) <= named <= set(extras)
    assert set(EXTRAS.values()) <= set(extras)


def test_each_package_of_an_extra_is_known_as_its() -> None:
    """A person may have installed some of them, and lacks the others."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    modules: dict[str, set[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            modules.setdefault(package.lower().replace("_", "-"), set()).add(module)
    lines = [(line, extra) for extra in {*EXTRAS.values()} for line in extras[extra]]
    named = {re.split(r"[^\w.-]", line)[0]: extra for line, extra in lines}
    named.pop("interlock")

    assert not [
        package
        for package, extra in named.items()
        if extra not in {EXTRAS.get(module) for module in modules[package]}
    ]


def test_no_template_of_the_console_names_a_machine() -> None:
    names = {*NAMES, *MACHINES}
    found = {
        shown(path): quoted
        for path in sources("interlock/workers/console/templates/*.html")
        if (quoted := names & set(re.findall(r"[\"'/:](\w+)[\"'/ ]", path.read_text("utf-8"))))
    }

    assert not found


def test_every_other_meaning_is_still_there() -> None:
    strings = {
        (file, node.value)
        for file in {file for file, _ in OTHER_MEANINGS}
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        if isinstance(node, ast.Constant)
    }

    assert not set(OTHER_MEANINGS) - strings


# --- the registry ------------------------------------------------------------------------------


def test_every_line_of_the_registry_can_be_loaded() -> None:
    for system in systems():
        assert all(load(command.source) for command in system.commands)
        assert all(map(callable, map(load, system.submit.values())))
        assert set(system.submit) | set(system.counted) <= set(MACHINES)


def test_every_effect_that_a_machine_owes_has_one_handler() -> None:
    owed = {
        f"{machine.name}.{name}"
        for machine in MACHINES.values()
        for name, effect in machine.effects.items()
        if not effect.kept
    }

    assert set(handlers()) == owed


def test_every_number_of_a_machine_is_in_its_limits() -> None:
    """Times, lengths and counts: as constants, and as limits and defaults of payloads."""
    folders = (CODE / "kernel" / "machines").glob("*/*/")
    files = [file for folder in folders for file in folder.glob("*.py") if file.stem != "limits"]
    found = [
        f"{file.relative_to(ROOT)}:{line}" for file in files for line in _numbers(file.read_text())
    ]
    assert not found, "give them a name and a sentence in limits.py"


def _numbers(source: str) -> Iterator[int]:
    """Yield the lines that set a number above 1: a constant, a default, a limit of a field."""
    limits = ("ge", "gt", "le", "lt", "max_length")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword) or not node.value:
            continue
        if isinstance(node, ast.keyword) and node.arg not in limits:
            continue
        parts = list(ast.walk(node.value))
        numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
        only_numbers = all(isinstance(part, _OF_NUMBERS) for part in parts)
        if only_numbers and any(isinstance(one, int | float) and one > 1 for one in numbers):
            yield node.lineno


_OF_NUMBERS = (ast.Constant, ast.BinOp, ast.operator, ast.Tuple, ast.expr_context)

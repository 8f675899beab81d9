"""Runs the steps of the release notes example as a machine does, and makes repositories for it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from traceback import print_exc
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "release_notes"
GRAPH = yaml.safe_load((EXAMPLE / "graph.yaml").read_text("utf-8"))
STEPS = {step["name"]: step for step in GRAPH["steps"]}


@dataclass
class Chain:
    """The steps of the graph on one repository, each in a folder of its own."""

    home: Path
    repo: Path
    environment: dict[str, str] = field(default_factory=dict)
    handed_in: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        beside = Path(sys.executable).parent
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("GIT_")},
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "RELEASE_NOTES_REPO": str(self.repo),
            **self.environment,
        }

    def start(self, step: str, role: str, **told: Any) -> subprocess.Popen[str]:
        """Start the command of a step by a shell, as a machine does."""
        command, environment = self._command(step, role, **told)
        return subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd=EXAMPLE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _command(self, step: str, role: str, **told: Any) -> tuple[str, dict[str, str]]:
        """Return the command of a step with brief and variables as the contract has them."""
        folder = self.home / step
        folder.mkdir(parents=True, exist_ok=True)
        needs = STEPS[step].get("depends_on", [])
        brief = {
            "job": f"release-notes/{step}",
            "phase": "default",
            "role": role,
            "description": STEPS[step]["description"],
            "objective": STEPS[step].get("objective", ""),
            "details": "",
            "acceptance": STEPS[step].get("acceptance", []),
            "guidance": [],
            "dependencies": {
                need: self.handed_in[need] for need in needs if need in self.handed_in
            },
            "evidence": self.handed_in.get(step, {}).get("evidence", []),
            "summary": "",
            **told,
        }
        file = self.home / f"{step}.{role}.brief.json"
        file.write_text(json.dumps(brief), "utf-8")
        by_role = {"worker": STEPS[step]["worker"], "reviewer": GRAPH["defaults"]["review"]}
        environment = {
            "INTERLOCK_JOB_ID": brief["job"],
            "INTERLOCK_JOB_PHASE": "default",
            "INTERLOCK_JOB_ROLE": role,
            "INTERLOCK_JOB_DIR": str(folder),
            "INTERLOCK_JOB_BRIEF": str(file),
            "INTERLOCK_JOB_REPLY": str(self.reply_file(step, role)),
            "INTERLOCK_JOB_KEY": f"{step}-{role}",
            "INTERLOCK_JOB_RUN": "1",
            **self.environment,
        }
        return by_role[role]["command"], environment

    def reply_file(self, step: str, role: str) -> Path:
        return self.home / f"{step}.{role}.reply.json"

    def work(self, step: str, guidance: list[dict[str, str]] | None = None) -> dict[str, Any]:
        """Run a step's worker, and hand in what it made."""
        reply = self._run(step, "worker", guidance=guidance or [])
        if reply["action"] == "COMPLETED":
            self.hand_in(step, reply["evidence_files"])
        return reply

    def review(self, step: str) -> dict[str, Any]:
        """Run a step's reviewer on what was handed in."""
        return self._run(step, "reviewer")

    def hand_in(self, step: str, names: list[str]) -> None:
        """Keep a copy of the files under their digests, as a job's machine does."""
        evidence = []
        for name in names:
            content = (self.home / step / name).read_bytes()
            digest = sha256(content).hexdigest()
            kept = self.home / step / ".evidence" / digest
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(content)
            evidence.append({"path": str(kept), "name": name, "sha256": digest})
        self.handed_in[step] = {"dir": str(self.home / step), "summary": "", "evidence": evidence}

    def forge(self, step: str, name: str, text: str) -> None:
        """Hand in something that the step did not write."""
        (self.home / step).mkdir(parents=True, exist_ok=True)
        (self.home / step / name).write_text(text, "utf-8")
        self.hand_in(step, [name])

    def text(self, step: str, name: str) -> str:
        return (self.home / step / name).read_text("utf-8")

    def up_to(self, last: str, *, reviewed: tuple[str, ...] = ("assemble",)) -> None:
        """Run the steps in order; what the reviewer rejects runs again as it said."""
        for step in STEPS:
            reply = self.work(step)
            assert reply["action"] == "COMPLETED", reply
            review = self.review(step) if step in reviewed else {"verdict": "APPROVAL_REQUIRED"}
            if review["verdict"] != "APPROVAL_REQUIRED":
                assert step == "assemble", review
                self.work(step, guidance=said("reviewer", *review["reasons"]))
                assert self.review(step)["verdict"] == "APPROVAL_REQUIRED"
            if step == last:
                return

    def run(self, step: str, role: str, **told: Any) -> tuple[int, str]:
        """Run the command of a step in this process; return its exit code and its output."""
        command, environment = self._command(step, role, **told)
        output = self.home / f"{step}.{role}.output"
        return run_here(command, environment, output), output.read_text("utf-8")

    def _run(self, step: str, role: str, **told: Any) -> dict[str, Any]:
        self.reply_file(step, role).unlink(missing_ok=True)
        code, output = self.run(step, role, **told)
        assert code == 0, output
        reply: dict[str, Any] = json.loads(self.reply_file(step, role).read_text("utf-8"))
        assert len(reply["summary"]) <= 1000
        return reply


@cache
def modules_of_steps() -> dict[str, ModuleType]:
    """Import all modules of the steps; return them, and leave this process without them."""
    folder = EXAMPLE / "steps"
    names = [file.stem for file in folder.glob("*.py")]
    sys.path.insert(0, str(folder))
    try:
        for name in names:
            import_module(name)
    finally:
        sys.path.remove(str(folder))
    return {name: sys.modules.pop(name) for name in names}


@cache
def program_of(file: str) -> CodeType:
    """Compile the program of a step."""
    return compile((EXAMPLE / file).read_bytes(), file, "exec")


def run_here(command: str, environment: dict[str, str], output: Path) -> int:
    """Run `python3 FILE` in this process, which has what it needs imported; return its exit code.

    A process of its own for each step would take several times as long.
    """
    python, file, *arguments = shlex.split(command)
    assert python == "python3", command
    with (
        output.open("w", encoding="utf-8") as log,
        redirect_stdout(log),
        redirect_stderr(log),
        patch.dict(os.environ, environment, clear=True),
        chdir(EXAMPLE),
        pytest.MonkeyPatch.context() as changes,
    ):
        for name, module in modules_of_steps().items():
            changes.setitem(sys.modules, name, module)
        changes.setattr(sys, "executable", shutil.which(python))
        changes.setattr(sys, "argv", [file, *arguments])
        try:
            exec(program_of(file), {"__name__": "__main__", "__file__": file})  # noqa: S102 - our own
        except Exception:  # noqa: BLE001 - Python would print any and end with 1
            print_exc()
            return 1
    return 0


def said(by: str, *texts: str) -> list[dict[str, str]]:
    return [{"from": by, "by": "somebody", "text": text} for text in texts]


def git(repo: Path, *words: str) -> str:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
    command = ["/usr/bin/env", "git", "-C", str(repo), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(repo: Path, message: str, **files: str) -> str:
    """Commit files, given as `folder__name_md=text`, and return the short hash."""
    for name, text in (files or {"src__app_py": message}).items():
        path = repo / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(repo, "rev-parse", "--short=7", "HEAD")


def new_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder

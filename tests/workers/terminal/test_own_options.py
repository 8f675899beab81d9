"""A command may declare options of its own that have the names of those that `guarded` adds."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from interlock import KernelError, guarded

app = typer.Typer()


@app.command()
@guarded
def greet(
    *,
    actor: Annotated[str, typer.Option("--as")] = "person",
    as_json: Annotated[bool, typer.Option("--json")] = False,
    fails: Annotated[bool, typer.Option()] = False,
) -> None:
    """Greet somebody."""
    if fails:
        raise KernelError("nobody is there")
    typer.echo(json.dumps([actor, as_json]))


def test_a_function_without_a_shell_is_given_its_own_options(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path_factory.mktemp("home")))

    named = CliRunner().invoke(app, ["--as", "ann", "--json"])
    unnamed = CliRunner().invoke(app, [])
    failed = CliRunner().invoke(app, ["--json", "--fails"])

    assert json.loads(named.stdout) == ["ann", True]
    assert "the name ann is only claimed" in named.stderr
    assert json.loads(unnamed.stdout) == ["person", False]
    assert unnamed.stderr == ""
    assert json.loads(failed.stdout) == {"error": "KernelError", "message": "nobody is there"}

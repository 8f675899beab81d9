"""The values that INTERLOCK_CAPABILITIES may have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.workers.gateways.capabilities.extension import ExtensionError, read_extensions


@pytest.mark.parametrize("specification", [None, "", " , "])
def test_nothing_is_a_specification_too(specification: str | None) -> None:
    assert read_extensions(specification).modules == ()


def test_modules_and_files_are_read_in_order_and_each_once(tmp_path: Path) -> None:
    file = tmp_path / "more.toml"
    file.write_text(
        '[[module]]\nname = "json"\n[[module]]\nname = "csv"\n[[mcp]]\nname = "words"\n'
    )

    extensions = read_extensions(f"csv, {file}, json")

    assert [module.__name__ for module in extensions.modules] == ["csv", "json"]
    assert [server.table["name"] for server in extensions.servers] == ["words"]
    assert extensions.servers[0].file == file.resolve()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("modules = 1", "has 'modules'; it may have [[module]] and [[mcp]]"),
        ("[module]\nname = 'csv'", "write [[module]], with two brackets"),
        ("mcp = [1]", "write [[mcp]], with two brackets"),
        ("[[module]]\nnome = 'csv'", "has one line, name"),
        ("[[module", "is not TOML"),
        ("[[module]]\nname = 'a b'", "neither the name of a module"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    tmp_path: Path, content: str, problem: str
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(content)

    with pytest.raises(ExtensionError) as raised:
        read_extensions(str(file))

    assert problem in str(raised.value)
    assert "wrong.toml" in str(raised.value)


def test_a_missing_file_or_module_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match="cannot be read: No such file"):
        read_extensions(str(tmp_path / "none.toml"))
    with pytest.raises(
        ExtensionError, match="no 'nowhere_to_be_found' to import on this computer; install it"
    ):
        read_extensions("nowhere_to_be_found.capabilities")


def test_a_module_of_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in_this_folder.py").write_text("CAPABILITIES = []\n")
    monkeypatch.chdir(tmp_path)
    # The console script has no current folder in its path, unlike `python -m`.
    path = [entry for entry in sys.path if entry not in ("", str(tmp_path))]
    monkeypatch.setattr(sys, "path", path)

    [module] = read_extensions("in_this_folder").modules

    assert module.__file__ == str(tmp_path / "in_this_folder.py")
    assert sys.path == path


def test_files_and_modules_of_another_folder_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    for folder in (root, elsewhere):
        folder.mkdir()
    (root / "in_another_folder.py").write_text("CAPABILITIES = []\n")
    (root / "listed.toml").write_text('[[module]]\nname = "in_another_folder"\n')
    monkeypatch.chdir(elsewhere)

    [module] = read_extensions("listed.toml", root).modules

    assert module.__file__ == str(root / "in_another_folder.py")


def test_a_module_that_misses_its_own_import_keeps_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_something.py").write_text("import something_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="something_not_installed"):
        read_extensions("needs_something")

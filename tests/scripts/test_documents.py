"""The drawn parts of the documents agree with the tables and contracts in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.kernel.machines import MACHINES
from scripts import documents
from scripts.bands import bands


def test_the_page_matches_the_tables() -> None:
    assert documents.main(["--check"]) == 0


def test_every_machine_is_drawn_with_each_of_its_states_and_rows() -> None:
    for machine in MACHINES.values():
        section = documents.section(machine)
        assert section.startswith(f"## {machine.name}")
        for stage in machine.stages:
            assert str(stage.state) in section
        for row in machine.transitions:
            assert str(row.trigger) in section


def test_an_outdated_page_is_found_and_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{documents.BEGIN}\nlong ago\n{documents.END}\nafter\n")
    monkeypatch.setattr(documents, "DRAWN", {page: documents.tables})

    assert documents.main(["--check"]) == 1
    assert "python -m scripts.documents" in capsys.readouterr().err
    assert "long ago" in page.read_text()
    assert documents.main([]) == 0
    assert documents.main(["--check"]) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "long ago" not in text


def test_a_changed_row_makes_the_page_outdated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "README.md"
    current = documents.KERNEL_README.read_text()
    page.write_text(current.replace("--> awaiting_review:", "--> awaiting_redirect:"))
    monkeypatch.setattr(documents, "DRAWN", {page: documents.tables})

    assert page.read_text() != current
    assert documents.main(["--check"]) == 1


@pytest.mark.parametrize("text", ["", documents.BEGIN, f"{documents.END}{documents.BEGIN}"])
def test_a_document_that_lost_its_marks_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "README.md"
    page.write_text(text)

    with pytest.raises(ValueError, match="does not have the markers"):
        documents.renewed(page, documents.tables)


CONTRACT = """
[[tool.importlinter.contracts]]
name = "{name}"
type = "layers"
layers = [{layers}]
"""


def drawn(folder: Path, *workers: str) -> str:
    page = folder / "pyproject.toml"
    parts = (("worker floors", workers), ("kernel floors", ("lifecycle | notes", "errors")))
    page.write_text(
        "".join(
            CONTRACT.format(name=name, layers=", ".join(f'"{layer}"' for layer in layers))
            for name, layers in parts
        )
    )
    return bands(page)


def test_the_table_has_every_module_of_the_contracts_in_its_band(tmp_path: Path) -> None:
    table = drawn(tmp_path, "cli | main", "api", "engine")

    assert "| Doors | cli, main, api |" in table
    assert "| Engine | engine |" in table
    assert "| Kernel | the 3 of `interlock/kernel` |" in table


@pytest.mark.parametrize(
    ("workers", "said"),
    [(("cli", "new"), "new is in no band"), (("engine", "api"), "api lies below the band 'Doors'")],
    ids=["a module without a band", "a module below its band"],
)
def test_a_module_that_fits_no_band_is_refused(
    tmp_path: Path, workers: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        drawn(tmp_path, *workers)

"""The run over a spoilt table goes as its page says: a refusal, a redo, the table, a true bill."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from examples.clean_a_dataset.spoil import (
    BLANKS,
    HALF_MISSING,
    METRIC,
    MISSING_STATE,
    SMALL,
    TWICE,
    spoilt,
)
from tests.processes import marked

ROOT = Path(__file__).parents[2]
TRUE = (ROOT / "examples/clean_a_dataset/states.csv").read_text("utf-8")
MARK = "CLEAN_A_DATASET_OF_THIS_TEST"
STORY = (
    "$ interlock run start plan.yaml",
    "fetch completed",
    "profile completed $0.0012 58 rows, 4 missing",
    *(f"normalise#{iteration} completed" for iteration in range(4)),
    "0 faults are left",
    "deduplicate completed",
    "row-keeper: 8 of 58 rows are gone",
    "validate failed $0.00 while running: South Dakota has no capital",
    "$ interlock run redo complete --as-is",
    "from run 1, after deduplicate",
    "nothing is missing",
    "row-keeper: all 50 rows are there",
    "validate completed",
    "report completed",
    "$ interlock run status",
    "11 of 11 codons done",
    "$ interlock run costs --since 1",
    # At 20 micro-dollars a row: 6 codons over 58 rows, 3 over 50; 7 calls of the sentinel at 100.
    "run 1 and newer $0.01 $0.011",
    "$ interlock run checkpoints",
    "1 fetch rig-setup",
    "1 validate error complete",
    "2 report completed report",
    "data/table.csv is byte for byte what it was before it was spoilt",
    "$ interlock run start describe.yaml",
    "editor: It is plain.",
    "Interlock counted 3,900 micro-dollars, its provider charged 3,900",
)


@pytest.mark.slow(minutes=1)
@pytest.mark.timeout(240)
def test_a_spoilt_table_is_cleaned_and_the_bill_is_the_providers(tmp_path: Path) -> None:
    owner = uuid4().hex
    kept = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "examples.clean_a_dataset"],
        cwd=ROOT,
        env={**kept, "INTERLOCK_HOME": str(tmp_path), MARK: owner},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert marked(MARK, owner) == {}, "no process is left when it has ended"

    assert done.returncode == 0, done.stdout + done.stderr
    said, at = " ".join(done.stdout.split()), 0
    for sentence in STORY:
        at = said.find(sentence, at) + 1
        assert at > 0, f"{sentence!r} is missing or out of order:\n{done.stdout}"
    home = tmp_path / "clean_a_dataset"
    assert (home / "workspace" / "data" / "table.csv").read_text("utf-8") == TRUE
    assert "58 rows came in and 50 are left" in (home / "workspace" / "REPORT.md").read_text()
    charges = (home / "charges.jsonl").read_text("utf-8").splitlines()
    assert sum(json.loads(line)["picodollars"] for line in charges) == 3_900 * 1_000_000


def test_the_table_is_spoilt_as_its_page_says() -> None:
    raw = spoilt(TRUE)
    assert raw == spoilt(TRUE), "always alike"
    rows = list(csv.DictReader(io.StringIO(raw)))

    assert len(rows) == 50 + TWICE
    cells = [row[column] for row in rows for column in ("state", "capital")]
    assert sum(cell != " ".join(cell.split()) for cell in cells) == BLANKS
    assert sum(row["code"].islower() for row in rows) == SMALL
    assert sum(row["area_sq_mi"].endswith(" km2") for row in rows) == METRIC
    gaps = [row["state"].strip() for row in rows if row["capital"].strip() in ("", "n/a", "?")]
    assert MISSING_STATE in gaps
    assert len(gaps) == HALF_MISSING + 1

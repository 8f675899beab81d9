"""What the benchmark needs to run at all, and what it says of its own figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import history, noise
from bench.app import MACHINES, handlers
from bench.peers.environment import LOCK, version_of
from interlock.workers.engine.registration import handled_effects

PEERS = Path(noise.__file__).parent / "peers"


def test_each_effect_of_the_measured_machines_has_a_handler() -> None:
    found = {f"{machine.name}.{name}" for machine, name, _ in handled_effects(MACHINES, handlers())}

    assert {"chain.step", "flow.first"} <= found


@pytest.mark.parametrize("program", ["dbos_steps.py", "pgqueuer_steps.py"])
def test_what_runs_a_peer_is_short(program: str) -> None:
    lines = (PEERS / program).read_text("utf-8").splitlines()

    assert len([line for line in lines if line.strip()]) <= 60


def test_the_peers_are_pinned_by_their_hashes() -> None:
    text = LOCK.read_text("utf-8")

    assert text.count("--hash=sha256:") >= text.count("==") > 0
    assert version_of("dbos")
    assert version_of("pgqueuer")


def test_rounds_that_lie_far_apart_are_called_noisy() -> None:
    steady = [{"ours": 100.0, "others": 100.0}] * 4
    found = {"peers_rounds": [*steady, {"ours": 50.0, "others": 101.0}]}
    assert noise.spreads(found) == {"ours": 0.0, "others": 0.0}

    halves = {"rounds": {"1": [{"ours": 100.0}, {"ours": 100.0}, {"ours": 150.0}, {"ours": 160.0}]}}
    spread = noise.spreads(halves)

    assert list(noise.noisy({"peers": {"busy": 0.5, "spread": spread}})) == [
        "peers: other programs used 50% of the processors before it began",
        "peers: half of the rounds of ours 1 lie in a range of 40%",
    ]


def test_a_run_is_a_line_of_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert list(history.rows()) == []

    history.keep({"at": 0, "ratio": {"1": 2.5}})

    assert json.loads(history.path().read_text())["ratio"] == {"1": 2.5}
    [row] = history.rows()
    assert row[0] == "1970-01-01 00:00"
    assert row[2:] == ("-", "2.5", "-", "-", "-", "-")

"""The comparison fails where Interlock breaks a promise, and only shows what others do."""

from __future__ import annotations

import pytest

from bench.peers.environment import MissingError
from tests.comparison import __main__ as comparison
from tests.comparison.refund_round import REFUNDS, broken
from tests.comparison.rounds import Round
from tests.fakes.bank import Bank


def test_a_refund_that_is_paid_twice_breaks_a_promise() -> None:
    bank = Bank()
    bank.paid.update(REFUNDS)
    assert not broken(bank, done=len(REFUNDS))

    bank.paid["r-3"] += 1

    assert broken(bank, done=len(REFUNDS)) == ["a refund was paid twice"]


def test_a_refund_that_is_called_done_and_was_not_paid_breaks_a_promise() -> None:
    bank = Bank()
    bank.paid["r-3"] = 1

    assert broken(bank, done=2) == ["a refund is called done that was not paid"]


def run(monkeypatch: pytest.MonkeyPatch, round_of: Round | None) -> int:
    def one() -> Round:
        if round_of is None:
            raise MissingError("no network")
        return round_of

    monkeypatch.setattr(comparison, "ROUNDS", {"refund": one})
    monkeypatch.setattr("sys.argv", ["comparison"])
    return comparison.main()


def test_a_broken_promise_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, Round("Interlock", "refund.py", "1x", ["it was paid twice"])) == 1
    assert "BROKEN by Interlock, refund.py: it was paid twice" in capsys.readouterr().out


def test_a_peer_that_cannot_be_installed_is_skipped_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, None) == 0
    assert "skipped: refund, because no network" in capsys.readouterr().out

"""Secrets: the data name one, a step reads it, and its value is kept and shown nowhere."""

from __future__ import annotations

import logging
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from interlock import Data, Secret, Work, Workflow
from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.event import Note
from interlock.kernel.store.scripts import read
from interlock.workers.config import SettingsError, read_settings
from interlock.workflow.secret import SecretError
from tests.kernel.store.contents import READS
from tests.workflow.at_work import AtWork, Start

VALUE = "s3cr3t-pay-value"
OTHER = "another-tenants-value"


class Account(Data):
    name: str
    login: Secret


class Payment(Data):
    way: str
    key: Secret = Secret("env:PAY_OUT")
    more: list[Account] = []
    said: str = ""
    counts: dict[str, int] = {}


SEEN: list[str] = []


def payments(*, once: bool = False) -> Workflow[Payment]:
    payment = Workflow("own_payment", Payment, title="{way} with {key}")

    @payment.step(once=once, max_attempts=1)
    def pay(p: Payment, work: Work) -> Literal["done"]:
        if p.way == "nested":
            SEEN.append(p.more[0].login.value())
            return "done"
        key = p.key.value()
        SEEN.append(key)
        work.note(f"pays with {key}")
        if p.way == "raise":
            raise RuntimeError(f"401: the key {key} is wrong") from ValueError(key)
        if p.way == "save":
            work.saved("session", lambda: [{key: f"a session of {key}"}])
        if p.way == "begin":
            assert work.once("session", lambda: ({key: 1},)) == ({key: 1},)
        if p.way == "keys":
            p.counts[key] = 1
        if p.way == "keep":
            p.said = f"it was {key}"
        return "done"

    payment.ends(done=True)
    return payment


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    monkeypatch.setenv("PAY_OUT", VALUE)
    monkeypatch.setenv("TENANT_A", OTHER)


def submitted(worker: AtWork, way: str, **more: Any) -> None:
    worker.client.submit({"way": way, **more}, machine="own_payment", id="p-1")
    worker.work("p-1")


def failures(worker: AtWork) -> str:
    lines = worker.client.history("p-1")
    return "; ".join(str(line.detail.get("detail", "")) for line in lines if isinstance(line, Note))


def everywhere(worker: AtWork) -> str:
    """Return all that the store keeps, and what is shown of the record."""
    client = worker.client.dispatch.client
    keys: Any = client.keys(f"{worker.client.settings.prefix}:*")
    assert keys
    kept = []
    for key in keys:
        word, *more = READS[read(client, "TYPE", key)]
        kept.append(read(client, word, key, *more))
    shown = (worker.client.show("p-1"), worker.client.history("p-1"), worker.client.card("p-1"))
    return f"{kept} {shown}"


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("way", ["pay", "raise", "keep", "keys", "save", "begin"])
def test_a_step_reads_the_value_which_is_kept_and_shown_nowhere(
    at_work: Start, caplog: pytest.LogCaptureFixture, way: str, *, once: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    worker = at_work(payments(once=once))
    submitted(worker, way)

    assert SEEN == [VALUE]
    found = f"{everywhere(worker)} {caplog.text} {worker.lines}"
    assert VALUE not in found
    assert "env:PAY_OUT" in found
    assert "pays with ***" in found
    assert worker.client.show("p-1").state == {"pay": "done", "begin": "done"}.get(
        way, "pay_unclear" if once else "pay"
    )
    if way == "save":
        assert "the result session has the value of a secret, and results are stored" in found


def test_what_a_step_leaves_of_it_in_its_data_is_refused_with_the_field(at_work: Start) -> None:
    worker = at_work(payments())
    submitted(worker, "keep")

    assert "pay left the value of a secret in said" in failures(worker)
    assert worker.client.show("p-1").data["said"] == ""


def test_a_variable_that_is_not_set_fails_the_step_and_is_named_with_the_worker(
    at_work: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAY_OUT")
    worker = at_work(payments())
    submitted(worker, "pay")

    holder = worker.client.dispatch.holder
    assert f"PAY_OUT, which key names, is not set in the environment of the worker {holder}" in (
        failures(worker)
    )
    assert "test_secrets.py, line" in failures(worker)


def test_a_submission_names_no_variable_that_the_definition_does_not_name(at_work: Start) -> None:
    worker = at_work(payments())
    submitted(worker, "pay", key="env:TENANT_A")

    assert SEEN == []
    assert "the data name TENANT_A in key, which is not the default there" in failures(worker)
    assert "only if INTERLOCK_SECRETS names it" in failures(worker)


@pytest.mark.parametrize(
    ("allowed", "seen"), [("TENANT_*", True), ("TENANT_A", True), ("TEN", False)]
)
def test_a_worker_may_allow_more(at_work: Start, allowed: str, *, seen: bool) -> None:
    worker = at_work(payments(), INTERLOCK_SECRETS=allowed)
    submitted(worker, "pay", key="env:TENANT_A")

    assert ([OTHER] if seen else []) == SEEN


def test_a_secret_inside_of_a_list_is_read_and_has_no_default(at_work: Start) -> None:
    nested = {"name": "a", "login": "env:PAY_OUT"}
    worker = at_work(payments(), INTERLOCK_SECRETS="PAY_OUT")
    submitted(worker, "nested", more=[nested])
    assert SEEN == [VALUE]

    strict = at_work(payments_of_others())
    strict.client.submit({"more": [nested]}, machine="others", id="o-1")
    strict.work("o-1")
    lines = strict.client.history("o-1")
    assert any("PAY_OUT in more.login" in str(line) for line in lines)


def payments_of_others() -> Workflow[Any]:
    class Others(Data):
        more: list[Account]

    others = Workflow("others", Others)

    @others.step(max_attempts=1)
    def read(o: Others) -> Literal["done"]:
        o.more[0].login.value()
        return "done"

    others.ends(done=True)
    return others


@pytest.mark.parametrize("key", [VALUE, "vault:pay", "env:", "env:A B", 7, None])
def test_what_is_no_name_is_refused_and_not_repeated(at_work: Start, key: object) -> None:
    worker = at_work(payments())
    with pytest.raises(InvalidPayloadError) as refusal:
        worker.client.submit({"way": "pay", "key": key}, machine="own_payment")

    assert "a secret is named, never stored: write env:STRIPE_KEY" in str(refusal.value)
    assert VALUE not in str(refusal.value)
    with pytest.raises(ValidationError) as at_home:
        Payment(way="pay", key=key)  # type: ignore[arg-type]
    assert VALUE not in str(at_home.value)


def test_no_setting_of_interlock_is_ever_read(at_work: Start) -> None:
    worker = at_work(payments())
    with pytest.raises(InvalidPayloadError, match="INTERLOCK_API_TOKEN is a setting of Interlock"):
        worker.client.submit(
            {"way": "pay", "key": "env:INTERLOCK_API_TOKEN"}, machine="own_payment"
        )


def test_only_a_step_reads_a_value(at_work: Start) -> None:
    worker = at_work(payments())
    submitted(worker, "pay")
    payment = worker.flows["own_payment"].load(worker.client.show("p-1").data)
    secret = payment.key

    assert (str(secret), repr(secret)) == ("env:PAY_OUT", "Secret('env:PAY_OUT')")
    assert secret == Secret("env:PAY_OUT")
    with pytest.raises(SecretError, match="PAY_OUT is read by a step alone"):
        secret.value()


@pytest.mark.parametrize("names", ["*", "INTERLOCK_STORE_URL", "A-B", "A*B"])
def test_a_worker_allows_names_alone(names: str) -> None:
    with pytest.raises(SettingsError, match="INTERLOCK_SECRETS"):
        read_settings({"INTERLOCK_SECRETS": names})

"""Systems of other projects: INTERLOCK_SYSTEMS adds them, and nothing of Interlock is changed."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from interlock.kernel.errors import StaleDecisionError
from interlock.kernel.event import Event
from interlock.kernel.machines import MACHINES
from interlock.kernel.record import Record, RecordId, Version, partition_of
from interlock.kernel.store.commands import EffectMessage
from interlock.kernel.table import Waiting
from interlock.workers import cli, producer_message
from interlock.workers.access.roles import Role
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.console.app import create_console
from interlock.workers.engine import own_systems
from interlock.workers.engine.card import Card
from interlock.workers.engine.celery_app import effect_queues
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeps import orphans
from interlock.workers.engine.system import SystemsError
from interlock.workers.engine.work import EffectWork, Handler, Outcome
from interlock.workers.supervision.supervisor import open_dispatch
from interlock.workers.systems import details, evidence, handlers, pages
from tests.sweeping import sweeping
from tests.systems.tasks.claims import fire, taken
from tests.waiting import until
from tests.workers.access.tokens import new_token
from tests.workers.console.test_console import MARKUP, SITE, sign_in
from tests.workers.engine.own_systems.programs import BILLING, BILLING_PAGE, PRODUCER, READY_S, ROOT
from tests.workers.engine.running import perform
from tests.workers.engine.test_card_answers import compare

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_it_may_have_a_page_in_the_console(
    added: None, project: Path, environment: dict[str, str]
) -> None:
    del added
    with_page = BILLING.replace(
        "SYSTEM = il.System(", 'SYSTEM = il.System(page="billing_page:PAGE",'
    )
    (project / "billing.py").write_text(with_page, "utf-8")
    (project / "billing_page.py").write_text(BILLING_PAGE, "utf-8")
    client = Client(read_settings(environment))
    client.submit({"supplier": MARKUP, "amount": 120}, id="inv-1", machine="invoice")
    fire(client, taken(client, "inv-1"), "pass")
    with TestClient(create_console(client), base_url=SITE, follow_redirects=False) as browser:
        sign_in(browser, new_token(client, Role.VIEWER))
        looked, record = browser.get("/systems/billing").text, browser.get("/records/inv-1").text
        sign_in(browser, new_token(client, Role.OPERATOR))
        offered = browser.get("/systems/billing").text
        form = {"invoice": "inv-1"}
        done = browser.post("/systems/billing/reject", data=form, headers={"Origin": SITE})

    assert 'href="/records/inv-1"' in looked
    assert "120.00 EUR" in record
    assert MARKUP not in looked + record
    assert ("<button>Reject" in looked, "<button>Reject" in offered) == (False, True)
    assert done.headers["Location"] == "/records/inv-1"
    assert client.show("inv-1").state == "rejected"


@pytest.mark.slow(minutes=0.5)
def test_its_records_live_as_those_of_any_other_system(
    added: None,
    project: Path,
    environment: dict[str, str],
    run: Run,
    worker: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del added
    client = Client(read_settings(environment), actor="ann")

    def printed(*words: str) -> str:
        done = CliRunner().invoke(cli.app, words, env=environment)
        assert done.exit_code == 0, done.output + worker.read_text()
        return done.stdout

    sent = run("parcel", "send", "p1", "Oslo")
    assert "p1 goes to Oslo" in sent.stdout, sent.stderr + worker.read_text()
    assert client.wait("p1", timeout_s=READY_S).state == "at_the_door"
    (card,) = client.cards()
    assert (card.machine, card.kind) == ("parcel", "door")
    assert card.question == "A parcel for Oslo is at the door. Take it?"
    assert "from at_the_door to delivered" in printed("explain", "p1", "take")
    with pytest.raises(StaleDecisionError):
        client.decide("p1", "take", proposal="p1:1")
    taken = client.decide("p1", "take", proposal=card.proposal)
    assert (taken.state, taken.data) == ("delivered", {"to": "Oslo", "taken_by": "ann"})

    (project / "producer.py").write_text(PRODUCER, "utf-8")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(project / "producer.py"))
    assert [card.question for card in client.cards()] == ["Pay 120.0 to Acme?"]
    assert client.cancel("inv-1", reason="ordered twice").state == "rejected"

    reasons = [line.because for line in client.history("inv-1") if isinstance(line, Event)]
    assert reasons == [
        "it was created",
        "the amount is positive",
        "a person rejected it: ordered twice",
    ]
    shown = printed("show", "inv-1")
    assert "ordered twice" in shown, "its system says which fields are shown"
    assert "about" not in shown, "it has no title"
    listed = printed("list")
    assert "p1" in listed
    assert "inv-1" in listed
    assert "invoice: rejected 1" in listed
    others = json.loads(printed("top", "--json"))["others"]
    assert (others["invoice"], others["parcel"]) == ({"rejected": 1}, {"delivered": 1})
    checked = json.loads(CliRunner().invoke(cli.app, ["doctor", "--json"], env=environment).stdout)
    assert checked["machines"]["parcel"] == {"delivered": 1}


OWN: dict[str, dict[str, Any]] = {
    "invoice": {"supplier": "Acme", "amount": 5.0},
    "parcel": {"to": "Oslo"},
}


def test_its_data_are_shown_with_the_record_and_beside_its_card(
    added: None, environment: dict[str, str]
) -> None:
    del added
    client = Client(read_settings(environment), actor="ann")
    client.submit({"supplier": "Acme", "amount": 5.0}, machine="invoice", id="inv-3")
    record = client.show("inv-3")

    fields = details(client, record)
    (section,) = evidence(client, record)

    assert fields == {"supplier": "Acme", "amount": "5.0"}
    assert (section.title, section.parts[0]) == ("Data", fields)


@pytest.mark.parametrize("name", OWN)
def test_the_schemas_of_its_cards_accept_what_decide_accepts(
    added: None, environment: dict[str, str], name: str
) -> None:
    del added
    client = Client(read_settings(environment), actor="ann")

    for stage in MACHINES[name].stages:
        if isinstance(stage, Waiting):
            record = Record(RecordId("one"), name, str(stage.state), Version(5), OWN[name])
            assert compare(client, record) == {choice for choice, _ in stage.affordances}


def test_a_plain_message_creates_its_record(added: None, environment: dict[str, str]) -> None:
    del added
    client = Client(read_settings(environment))
    request = {"id": "inv-2", "machine": "invoice", "payload": {"supplier": "Acme", "amount": 5}}

    done = [producer_message.accept(client, "submit", request) for _ in range(2)]

    assert [answer["answer"] for answer in done] == ["accepted", "known"]
    assert client.show("inv-2").data == {"supplier": "Acme", "amount": 5.0}


def test_a_supervisor_knows_its_machines(
    added: None, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del added
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert {"invoice", "parcel"} < set(open_dispatch().machines)


def test_an_effect_may_have_the_name_of_one_of_another_machine(added: None, project: Path) -> None:
    del added
    ours = handlers()["task.merge"]
    own_systems.add_systems(["billing", "parcels"], project)

    found = handlers()

    assert found["task.merge"] is ours
    assert found["parcel.merge"].__module__ == "parcels.effects"
    assert "invoice.merge" not in found
    assert "task.packing" not in found


def test_an_effect_has_a_queue_that_no_other_system_uses_by_accident(
    added: None, project: Path, environment: dict[str, str]
) -> None:
    del added
    own_systems.add_systems(["billing", "parcels"], project)
    queues = effect_queues(MACHINES.values())
    publisher = Client(read_settings(environment)).dispatch.publisher

    def queue(machine: str, effect: str) -> str:
        task, queue, *_ = publisher._address(EffectMessage("one:1.0:abc", machine, effect, 5))
        assert task == f"{machine}.{effect}"
        return queue.removeprefix(publisher.settings.namespace)

    assert {"merge", "parcels", "invoice.invoice_payment", "resolution"} < {*queues}
    assert queue("task", "merge") == ".merge"
    assert queue("parcel", "merge") == queue("parcel", "packing") == ".parcels"
    assert queue("invoice", "invoice_payment") == ".invoice.invoice_payment"
    assert queue("invoice", "resolution") == ".resolution"


def test_the_folder_of_an_installed_system_is_not_searched(
    added: None, project: Path, tmp_path: Path
) -> None:
    del added
    elsewhere, before = tmp_path / "elsewhere", [*sys.path]
    elsewhere.mkdir()

    sys.path.append(str(project))
    own_systems.add_systems(["billing"], elsewhere)
    assert sys.path == [*before, str(project)]
    sys.path.remove(str(project))
    own_systems.add_systems(["parcels"], project)
    assert sys.path == [*before, str(project)], "what it names is imported later, from there"


class OneWorker:
    """A client, and a runner that does the effects of invoices one by one, in this process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.client = Client(read_settings({**environment, "INTERLOCK_LEASE_S": "1"}), actor="ann")
        self.runner = Runner(self.client.dispatch, Resources(self.client.settings))
        self.invoice = MACHINES["invoice"]
        self.client.submit({"supplier": "Acme", "amount": 5}, id="inv", machine="invoice")

    def work(self, name: str, handler: Handler) -> str:
        """Let the runner do the effect that is due."""
        (entry,) = [one for one in self.client.show("inv").entries if one.name == name]
        return perform(self.runner, self.invoice, name, handler, entry.key("inv"))

    def sweep(self) -> None:
        """Let the sweep look for lost effects once."""
        orphans.run(sweeping(self.client.dispatch), partition_of("inv"))


def test_a_payment_that_was_begun_is_not_begun_again_and_a_person_is_asked(
    added: None, environment: dict[str, str]
) -> None:
    del added
    one = OneWorker(environment)
    one.work("invoice_checking", handlers_of("billing")["invoice_checking"])
    card = one.client.card("inv")
    assert card is not None
    one.client.decide("inv", "approve", proposal=card.proposal)

    def breaks(_: EffectWork) -> Outcome:
        raise OSError("the bank does not answer")

    one.work("invoice_payment", breaks)
    one.sweep()

    assert one.client.show("inv").state == "unclear"
    asked = one.client.card("inv")
    assert asked is not None
    assert asked.question == "Acme may have got 5.0 already. Did it?"
    again = one.client.decide("inv", "pay_again", proposal=asked.proposal)
    assert again.state == "paying"


def test_a_cancel_gives_a_trigger_only_the_fields_that_its_payload_has(
    added: None, environment: dict[str, str]
) -> None:
    del added
    client = Client(read_settings(environment), actor="ann")
    client.submit({"to": "Oslo"}, id="p", machine="parcel")

    assert client.cancel("p", reason="ordered twice").state == "returned"
    event = client.history("p")[-1]
    assert isinstance(event, Event)
    assert (event.payload, event.cause.reason) == ({}, "ordered twice")


def test_a_card_and_the_log_say_why_an_effect_was_given_up(
    added: None, environment: dict[str, str]
) -> None:
    del added
    one = OneWorker(environment)

    def breaks(_: EffectWork) -> Outcome:
        raise LookupError("there is no rule for Acme\nand more lines")

    for _ in range(3):
        until(
            lambda: one.work("invoice_checking", breaks).startswith(("retry: tried", "failure")),
            what="the next attempt is due",
        )

    def asks() -> list[Card]:
        one.sweep()
        return one.client.cards_of("inv")

    (card,) = until(asks, what="it is given up")
    assert card.kind == "quarantine"
    place = f"({__file__}, line {breaks.__code__.co_firstlineno + 1})"
    sentence = f"LookupError: there is no rule for Acme {place}"
    assert f"(after 3 attempts): {sentence}. Repair" in card.question
    assert [listed.question for listed in one.client.cards()] == [card.question]
    log = CliRunner().invoke(cli.app, ["history", "inv"], env=environment).stdout
    assert log.count(f"{sentence} and more lines\n") == 3


WRONG = {
    "is not the name of a module": ("no-name", ""),
    "there is no 'nowhere'": ("nowhere", ""),
    "cannot be imported: ZeroDivisionError": ("wrong", "1 / 0"),
    "AttributeError: SMAL (PROJECT/wrong.py, line 4)": (
        "wrong",
        "from enum import StrEnum\nState = StrEnum('State', ['SMALL'])\nprint(State.SMAL)",
    ),
    "has neither a Workflow": ("wrong", "x = 1"),
    "has a system called jobs": ("wrong", "SYSTEM = System(name='jobs', effects='wrong')"),
    "has the folder ''; write": ("wrong", "SYSTEM = System(name='w', folders=('',))"),
    "has the folder '.'; write": ("wrong", "SYSTEM = System(name='w', folders=('.',))"),
    "has the folder '..'; write": ("wrong", "SYSTEM = System(name='w', folders=('..',))"),
    "has the folder '/data'; write": ("wrong", "SYSTEM = System(name='w', folders=('/data',))"),
    "has the folder 'a/b'; write": ("wrong", "SYSTEM = System(name='w', folders=('a/b',))"),
    "names 'n' in `evidence`, which is no machine; there are: m": (
        "wrong",
        "SYSTEM = System(name='w', machines={'m': 'wrong:X'}, evidence={'n': 'wrong:X'})",
    ),
    "names 'n' in `plain`, which is no machine; there are: m": (
        "wrong",
        (
            "SYSTEM = System(name='w', machines={'m': 'wrong:X'}, plain={'machine': 'n', "
            "'says': 'S', 'example': 'E', 'command': 'c', 'payload': 'wrong:P'})"
        ),
    ),
    "has the row outputs={'m': 'wrong'} in w; write the 'module:attribute'": (
        "wrong",
        "SYSTEM = System(name='w', machines={'m': 'wrong:X'}, outputs={'m': 'wrong'})",
    ),
    "has the row plain={'machine': 'm'} in w; write command, example, machine, payload, says": (
        "wrong",
        "SYSTEM = System(name='w', machines={'m': 'wrong:X'}, plain={'machine': 'm'})",
    ),
    "there is a machine called job already": (
        "wrong",
        "SYSTEM = System(name='w', effects='wrong', machines={'job': 'wrong:X'})",
    ),
    "has a machine sweep, a name that Interlock uses": (
        "wrong",
        "SYSTEM = System(name='w', effects='wrong', machines={'sweep': 'wrong:X'})",
    ),
    "has a command called list": (
        "wrong",
        (
            "mine = CommandRow('list', 'wrong:app', Panel.LOOK, 'Mine.')\n"
            "SYSTEM = System(name='w', effects='wrong', commands=(mine,))"
        ),
    ),
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_wrong_module_is_one_sentence_that_names_it(
    problem: str,
    project: Path,
    added: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del added
    module, text = WRONG[problem]
    (project / "wrong.py").write_text(f"from interlock import CommandRow, Panel, System\n{text}\n")
    monkeypatch.setenv("INTERLOCK_SYSTEMS", module)
    monkeypatch.setattr(sys, "argv", ["interlock", "--help"])

    with pytest.raises(SystemExit) as end:
        cli.main()

    printed = capsys.readouterr()
    assert (end.value.code, printed.out, printed.err.count("\n")) == (1, "", 1)
    assert problem.replace("PROJECT", str(project)) in printed.err
    assert f"'{module}'" in printed.err


TABLE = '''"""A table with one effect, or with two."""

from enum import StrEnum

import interlock as il

State = StrEnum("State", ["ONE", "TWO", "END"])
Trigger = StrEnum("Trigger", ["GO", "LATE"])
LATE = il.Timer("late", lambda data: 1000, Trigger.LATE)


def table(one, two):
    return il.Machine(
        name="parcel_post",
        stages=(
            il.Active(State.ONE, (LATE,), effect=one, outcomes=(Trigger.GO,)),
            il.Active(State.TWO, (LATE,), effect=two, outcomes=(Trigger.GO,)),
            il.Terminal(State.END),
        ),
        transitions=(
            *il.rows(State.ONE, il.move(Trigger.GO, State.TWO, il.by(one))),
            *il.rows(State.TWO, il.move(Trigger.GO, State.END, il.by(two))),
            *il.rows((State.ONE, State.TWO), il.reenter(Trigger.LATE, il.by(il.STALLS))),
        ),
    )


def alike(name, **limits):
    return table(il.Effect(name, **limits), il.Effect(name, **limits))


'''
MADE = {
    "BAD": "il.by('paymnt')",
    "SPAWNS": "alike('spawn')",
    "SWEEPS": "alike('work', queue='sweeps')",
    "DOTS": "alike('work', queue='a.b')",
    "TWICE": "table(il.Effect('work'), il.Effect('work', attempts_max=9))",
    "PERSON": "alike('person')",
}


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("wrong:NOTHING", "loaded: AttributeError: module 'wrong' has no attribute 'NOTHING'\n"),
        ("wrong:SYSTEM", "but that is no Machine"),
        ("billing:INVOICE", "but the table billing:INVOICE is of invoice"),
        ("table:SPAWNS", "has an effect spawn in table:SPAWNS, as Interlock has for every machine"),
        ("table:SWEEPS", "effect work of table:SWEEPS the queue 'sweeps'; use small letters"),
        ("table:DOTS", "effect work of table:DOTS the queue 'a.b'; use small letters"),
        ("table:TWICE", "2 different effects are called work"),
        ("table:PERSON", "an effect is called person, as one who fires rows is"),
        ("table:BAD", "table:BAD cannot be loaded: UnknownActorError: by('paymnt') names nobody"),
    ],
)
def test_a_wrong_table_is_one_sentence_that_names_its_module(
    where: str, problem: str, project: Path, added: None
) -> None:
    del added
    made = MADE.get(where.partition(":")[2], "None")
    (project / "wrong.py").write_text(
        "from interlock import System\n"
        f"SYSTEM = System(name='w', effects='wrong', machines={{'parcel_post': '{where}'}})\n"
    )
    (project / "table.py").write_text(f"{TABLE}{where.partition(':')[2]} = {made}\n")
    own_systems.add_systems(["wrong"], project)
    with pytest.raises(SystemsError) as refusal:
        MACHINES["parcel_post"]

    assert "the module 'wrong', a word of INTERLOCK_SYSTEMS or `up`, " in str(refusal.value)
    assert problem in f"{refusal.value}\n"


def test_settings_that_are_no_settings_are_one_sentence_that_names_system_and_row(
    project: Path, added: None
) -> None:
    del added
    (project / "wrong.py").write_text(
        "from interlock import System\n"
        "class Mine: ...\n"
        "SYSTEM = System(name='w', effects='wrong', settings='wrong:Mine')\n"
    )

    variables = {"INTERLOCK_SYSTEMS": "wrong", "INTERLOCK_CAPABILITIES_ROOT": str(project)}

    with pytest.raises(SystemsError, match=r"'wrong', .*wrong:Mine in `settings`.* SystemSettings"):
        own_systems.add_systems_of(read_settings(variables))


@pytest.mark.parametrize("row", ["machines", "panels", "timelines"])
def test_a_page_names_no_machine_that_nobody_has(row: str, project: Path, added: None) -> None:
    del added
    rows = {"machines": "()", row: "{'parcell': None}"}
    fields = ", ".join(f"{name}={value}" for name, value in rows.items())
    (project / "wrong.py").write_text(
        "from interlock import System\n"
        "from interlock.system.pages import SystemPage\n"
        f"PAGE = SystemPage(title='W', question='W?', view=None, {fields})\n"
        "SYSTEM = System(name='w', effects='wrong', page='wrong:PAGE')\n"
    )
    own_systems.add_systems(["wrong"], project)

    with pytest.raises(SystemsError, match=f"names 'parcell' in `{row} of its page`, which is no"):
        pages()


def test_a_worker_with_a_wrong_module_ends_with_one_sentence(
    project: Path, environment: dict[str, str], added: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del added
    (project / "wrong.py").write_text("SYSTEM = 1\n")
    for name, value in (environment | {"INTERLOCK_SYSTEMS": "wrong"}).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit) as end:
        runpy.run_path(f"{ROOT}/workers/intake.py")

    sentence = str(end.value.code)
    assert sentence.startswith("interlock: the module 'wrong', a word of INTERLOCK_SYSTEMS or `up`")
    assert ", has neither a Workflow" in sentence
    assert "\n" not in sentence


def handlers_of(module: str) -> dict[str, Handler]:
    found: dict[str, Handler] = import_module(module).HANDLERS
    return found

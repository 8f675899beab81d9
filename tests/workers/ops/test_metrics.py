"""Metrics are shown as docs/metrics.md lists them, and Prometheus fires the alerts on them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from interlock.kernel.store import call_times
from interlock.workers.client import Client
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.gateways.server import EmbeddedServer, free_port
from interlock.workers.ops import metrics
from interlock.workers.ops.metrics import Exposition
from tests.systems.threads.threads import bring, client_of
from tests.waiting import until
from tests.workers.api.serving import served

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "interlock.json"
needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="there is no prometheus here",
)


@pytest.fixture
def interlock(server: EmbeddedServer, prefix: str) -> Client:
    return client_of(server.url, prefix, auth="none", records_max=1_000)


def families(text: bytes) -> dict[str, Any]:
    return {one.name: one for one in text_string_to_metric_families(text.decode())}


def exposed_name(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def test_the_page_lists_every_metric_with_its_type_and_labels(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_times, "ADD_S", 0.0)
    bring(interlock, "one", "executing")
    interlock.dispatch.indexes.count_sweep("orphans", {"publish": 1})
    interlock.dispatch.rejected.put("kind", "reason", {})
    found = families(Exposition(interlock.dispatch).text())
    rows = re.findall(r"^\| `(interlock_(?!process_)\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.MULTILINE)

    assert {(exposed_name(one), one.type) for one in found.values()} == {row[:2] for row in rows}
    labels = {name: set(re.findall(r"`(\w+)`", text)) for name, _, text in rows}
    for family in found.values():
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[exposed_name(family)]


def test_what_happened_is_shown(interlock: Client) -> None:
    bring(interlock, "one", "awaiting_confirmation")
    shown = Exposition(interlock.dispatch).text().decode()

    entered = 'machine="thread",source="-",target="proposed"'
    assert f"interlock_transitions_total{{{entered}}} 1.0" in shown
    assert 'interlock_records{machine="thread",state="awaiting_confirmation"} 1.0' in shown
    assert 'interlock_waiting{kind="waits"} 1.0' in shown
    assert 'interlock_sweep_late{sweep="orphans"} 1.0' in shown
    waiting = families(shown.encode())["interlock_queue_oldest_seconds"].samples
    ages = {sample.labels["queue"]: sample.value for sample in waiting}
    assert 0 <= ages["inference"] < 60
    found = families(shown.encode())["interlock_state_seconds"].samples
    last = {s.labels["state"]: s.value for s in found if s.labels.get("le") == "+Inf"}
    assert last["proposed"] == 1


def test_the_store_is_looked_at_once_for_all_who_ask(
    interlock: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Dispatch] = []
    look = metrics._look

    def counted(dispatch: Dispatch) -> Iterator[Any]:
        looks.append(dispatch)
        return look(dispatch)

    monkeypatch.setattr(metrics, "_look", counted)
    monkeypatch.setattr(metrics, "KEPT_S", 3_600)
    exposition = Exposition(interlock.dispatch)
    first = exposition.text()

    assert [exposition.text() for _ in range(3)] == [first] * 3
    assert len(looks) == 1


def expressions() -> list[str]:
    """Return the queries of the dashboard, with values in the places of its variables."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    values = {"$job": "interlock", "$__rate_interval": "5m", "$machine": "thread"}
    for name, value in values.items():
        found = [one.replace(name, value) for one in found]
    return found


def test_rules_and_dashboard_use_metrics_that_exist() -> None:
    listed = set(re.findall(r"^\| `(interlock_\w+)`", PAGE, re.MULTILINE))
    text = RULES.read_text() + DASHBOARD.read_text()
    used = {re.sub(r"_bucket$", "", one) for one in re.findall(r"interlock_[a-z_]+", text)}

    assert used <= listed
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def unknown(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Return the places of our dashboard that differ in what Grafana's types make of it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(f"{place}.{key}", value, theirs.get(key)) for key, value in ours.items()]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [
            (f"{place}[{at}]", *pair) for at, pair in enumerate(zip(ours, theirs, strict=True))
        ]
    else:
        return [] if ours == theirs else [place]
    return [found for at, our, their in pairs for found in unknown(our, their, at)]


def read_by_grafana(board: dict[str, Any]) -> Any:
    """Return a dashboard after it was read into Grafana's own types, and written from them."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


def test_grafana_knows_each_field_of_the_dashboard() -> None:
    board = json.loads(DASHBOARD.read_text())
    wrong = json.loads(DASHBOARD.read_text())
    first = wrong["panels"][0]
    places = [wrong, first, first["options"], first["targets"][0], first["fieldConfig"]["defaults"]]
    for place in places:
        place["colour"] = "blue"

    assert unknown(board, read_by_grafana(board)) == []
    assert unknown(wrong, read_by_grafana(wrong)) == [
        ".panels[0].fieldConfig.defaults.colour",
        ".panels[0].options.colour",
        ".panels[0].targets[0].colour",
        ".panels[0].colour",
        ".colour",
    ]


@needs_prometheus
def test_prometheus_reads_the_rules_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [{"record": f"q{n}", "expr": one} for n, one in enumerate(expressions())]
    queries = tmp_path / "queries.yml"
    queries.write_text(json.dumps({"groups": [{"name": "q", "rules": recorded}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(RULES), str(queries)],  # noqa: S607 - found by PATH
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


# For each alert a series that fires it after half an hour, with its values of each minute.
FIRED_BY = {
    "InterlockDown": ("up", "1x30 0x30"),
    "InterlockSweepLate": ('interlock_sweep_late{sweep="s"}', "0x30 1x30"),
    "InterlockCanaryLate": ("interlock_canary_seconds", "60x30 301x30"),
    "InterlockEffectsOverdue": ('interlock_oldest_seconds{kind="effects"}', "300x30 301x30"),
    "InterlockMessagesWait": ('interlock_queue_oldest_seconds{queue="q"}', "300x30 301x30"),
    "InterlockRenewalsLate": ('interlock_late_renewals_total{effect="e"}', "_x30 1x30"),
    "InterlockCardWaits": ('interlock_oldest_seconds{kind="waits"}', "86400x30 86401x30"),
    "InterlockEffectGivenUp": ('interlock_sweep_items_total{status="quarantined"}', "_x30 1x30"),
    "InterlockAttemptsRepeated": ('interlock_effect_attempts_total{which="again"}', "1x16 2+1x40"),
    "InterlockMessagesRejected": ('interlock_rejected_messages_total{kind="k"}', "_x30 1x30"),
    "InterlockBudgetRefused": ('interlock_budget_refusals_total{effect="e"}', "_x30 1x30"),
    "InterlockQuotaUsedUp": ("interlock_records_room", "1x30 0x30"),
    "InterlockStoreSlow": ("interlock_store_seconds", "1x30 2x30"),
}
OF_TARGET = 'job="interlock",instance="a"'
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


def case_of(alert: str, name: str, values: str) -> dict[str, Any]:
    """Return a test of promtool: a series fires this alert and no other one, and at first none."""
    named = name.replace("{", f"{{{OF_TARGET},") if "{" in name else f"{name}{{{OF_TARGET}}}"
    series = {f"up{{{OF_TARGET}}}": "1x60", named: values}
    fired = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
    return {
        "interval": "1m",
        "input_series": [{"series": one, "values": each} for one, each in series.items()],
        "promql_expr_test": [
            {"eval_time": at, "expr": FIRING, "exp_samples": samples}
            for at, samples in (("10m", []), ("29m", []), ("40m", fired))
        ],
    }


@needs_prometheus
def test_each_alert_fires_when_its_metric_says_so_and_not_before(tmp_path: Path) -> None:
    assert set(FIRED_BY) == set(re.findall(r"alert: (\w+)", RULES.read_text()))
    cases = [case_of(alert, *series) for alert, series in FIRED_BY.items()]
    # A counter is shown from its first count on; what it had before Prometheus began fires nothing.
    first = {alert: name for alert, (name, values) in FIRED_BY.items() if values[0] == "_"}
    cases += [case_of(alert, name, "1x30 2x30") for alert, name in first.items()]
    whole = {"rule_files": [str(RULES)], "tests": cases}
    (tmp_path / "cases.yml").write_text(json.dumps(whole))
    tested = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "cases.yml")],  # noqa: S607 - as above
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.fixture
def address(interlock: Client) -> Iterator[str]:
    """Return the address of a served API."""
    with served(interlock) as url:
        yield url.removeprefix("http://")


@needs_prometheus
def test_prometheus_fires_the_alerts_of_a_store_that_nobody_sweeps(
    address: str, tmp_path: Path
) -> None:
    at_once = re.sub(r"for: \d+m", "for: 0s", RULES.read_text())
    (tmp_path / "rules.yml").write_text(at_once)
    config = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
    config = config.replace("127.0.0.1:8470", address)
    # Prometheus waits no longer for an answer than until it asks again.
    (tmp_path / "prometheus.yml").write_text(config.replace("15s", "200ms"))
    # A slow computer takes longer to answer: it is asked less often from then on.
    patience = iter(((10, "5s"), (60, "30s"), (600, "")))
    began, patient_s, slower = time.monotonic(), *next(patience)
    (tmp_path / "interlock.token").write_text("not asked for here")
    listen = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={listen}",
        "--log.level=error",
    ]
    with (
        (tmp_path / "log").open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as prometheus,
    ):
        try:
            late = {"InterlockSweepLate", "InterlockCanaryLate"}

            def fires_these() -> bool:
                nonlocal patient_s, slower
                if slower and time.monotonic() - began > patient_s:
                    (tmp_path / "prometheus.yml").write_text(config.replace("15s", slower))
                    prometheus.send_signal(signal.SIGHUP)
                    patient_s, slower = next(patience)
                found = firing(listen)
                return late <= found and "InterlockDown" not in found

            until(fires_these, what="these alerts fire, and not that it is down", within_s=240)
        finally:
            prometheus.terminate()


def firing(listen: str) -> set[str]:
    """Return the names of the alerts that Prometheus fires."""
    try:
        answer = httpx2.get(f"http://{listen}/api/v1/alerts", timeout=180)
        found = answer.json()["data"]["alerts"]
    except (httpx2.TransportError, ValueError, KeyError):
        return set()
    return {alert["labels"]["alertname"] for alert in found if alert["state"] == "firing"}

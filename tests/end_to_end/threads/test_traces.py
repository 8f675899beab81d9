"""A deployment sends its spans to a receiver, and each process serves metrics of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx2

from interlock.systems.runs.client import Runs
from interlock.workers.engine.tracing import CODE
from tests.end_to_end.deployment import Deployment, Process
from tests.end_to_end.threads.test_models import settings, thread_payload
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.span_receiver import span_receiver
from tests.waiting import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PLAN = """\
plan: traced
codons: [{codon: one, command: 'echo "$TRACEPARENT$OTEL_EXPORTER_OTLP_HEADERS" > ../span.txt'}]
"""


def test_a_thread_and_its_model_calls_and_a_run_and_its_commands_are_one_trace(
    new_deployment: Callable[..., Deployment], tmp_path: Path
) -> None:
    plan, workspace = tmp_path / "plan.yaml", tmp_path / "workspace"
    plan.write_text(PLAN)
    workspace.mkdir()
    with OpenAIServer() as provider, span_receiver() as receiver:
        variables = {
            "INTERLOCK_TRACES": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "key=secret",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "INTERLOCK_METRICS_ADDRESS": "0",
        }
        deployment = new_deployment(**settings(provider), **variables).full()
        # As the API does with the header `traceparent` of a producer.
        deployment.client.codes = (f"{CODE}00-{TRACE}-b7ad6b7169203331-01",)
        deployment.client.submit(thread_payload(), machine="thread", id="whole")
        run = Runs(deployment.client).start(plan, workspace)
        assert [record.state for record in deployment.ends("whole", run.id)] == [
            "done",
            "completed",
        ]
        names = {"thread.inference", "thread.execution", "codon.step", "run.launch"}
        names |= {"sweep.orphans"}
        until(lambda: names <= {span.name for span in receiver.spans}, what="the spans came")
        worker, beat = deployment.processes
        assert 'interlock_process_info{name="beat@' in own_metrics(beat)
        assert 'store_call_seconds_count{kind="commit"}' in own_metrics(worker)
        ends = (
            '{celery_task="thread.inference",outcome="succeeded"} 3.0',
            '{celery_task="run.launch",outcome="ignored"} 1.0',
        )
        until(lambda: all(end in own_metrics(worker) for end in ends), what="all is counted")

    work = [span for span in receiver.spans if not span.name.startswith("sweep.")]
    by_id = {span.span_id: span for span in work}
    calls = [span for span in work if span.name.startswith("chat ")]
    assert {span.trace_id.hex() for span in work} == {TRACE}
    assert len(calls) == 3
    for call in calls:
        above = call
        while above.parent_span_id in by_id:
            above = by_id[above.parent_span_id]
        assert above.name == "thread.inference"
        about = {each.key: each.value for each in call.attributes}
        assert about["gen_ai.request.model"].string_value == "gpt-4o-mini"
        assert not any("write it down" in str(value) for value in about.values())
    [step] = [span for span in work if span.name == "codon.step"]
    assert by_id[step.parent_span_id].name == "run.launch"
    context = f"00-{TRACE}-{step.span_id.hex()}-01\n"
    assert (tmp_path / "span.txt").read_text() == context, "the span of the codon, and no key"


def own_metrics(process: Process) -> str:
    """Return the metrics that a process serves of itself, at the address that its log names."""
    [address] = re.findall(r"metrics of \S+ at (\S+)", process.output)
    return str(httpx2.get(address).text)

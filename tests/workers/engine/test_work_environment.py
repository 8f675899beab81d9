"""A command that is run for work gets no setting, and the span that it is run in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span
from pydantic import Field

from interlock.workers.config import SettingsError, SystemSettings, read_settings
from interlock.workers.engine.trace_context import CONTEXT_VARIABLES, Tracing
from interlock.workers.engine.work_environment import (
    CUT,
    VARIABLE_BYTES_MAX,
    environment_of_check,
    environment_of_work,
    trace_settings,
)
from interlock.workers.supervision.work_command import Command

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"
SECRETS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


@pytest.fixture(autouse=True)
def inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have been started in a span, with the key of a receiver of spans."""
    for name in (*CONTEXT_VARIABLES, *SECRETS, "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.setenv(name, "inherited")


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracing, "tracer", TracerProvider().get_tracer("test"))


def in_span(state: dict[str, str]) -> dict[str, str]:
    """Return the environment of a command that is run in a span with this trace state."""
    trace_state = TraceState(list(state.items()))
    context = SpanContext(TRACE, SPAN, False, TraceFlags(1), trace_state)  # noqa: FBT003
    with use_span(NonRecordingSpan(context)):
        return environment_of_work()


def context_of(environment: dict[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in CONTEXT_VARIABLES if name in environment}


def test_a_command_with_variables_about_its_work_may_call_interlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://127.0.0.1:1/0")

    environment = environment_of_work({"INTERLOCK_TASK_ID": "b/one"}, {"INTERLOCK_MODEL": "mine"})

    assert environment["INTERLOCK_TASK_ID"] == "b/one"
    assert "INTERLOCK_STORE_URL" not in environment
    assert read_settings(environment).model_fields_set == {"model"}
    with pytest.raises(SettingsError, match="INTERLOCK_TASK_ID is no setting"):
        read_settings({"INTERLOCK_TASK_ID": "b/one"})


@pytest.mark.parametrize("letter", ["a", "é", "中", "😀"])
def test_a_command_starts_with_a_variable_that_is_too_long_and_sees_that_it_is_cut(
    letter: str,
) -> None:
    text = letter * VARIABLE_BYTES_MAX

    environment = environment_of_work({"INTERLOCK_TASK_TEXT": text, "INTERLOCK_TASK_ID": "b/one"})

    command = ["/bin/sh", "-c", 'printf %s "$INTERLOCK_TASK_TEXT"']
    seen = subprocess.run(command, env=environment, check=True, capture_output=True).stdout.decode()
    assert seen.endswith(CUT)
    assert text.startswith(seen.removesuffix(CUT))
    lost = VARIABLE_BYTES_MAX - len(f"INTERLOCK_TASK_TEXT={seen}\0".encode())
    assert lost < len(letter.encode()), "as much as a variable takes is left"
    assert environment["INTERLOCK_TASK_ID"] == "b/one"


@pytest.mark.usefixtures("traced")
def test_a_command_gets_the_span_that_it_is_run_in_and_no_other() -> None:
    assert context_of(in_span({})) == {"TRACEPARENT": PARENT}
    assert context_of(in_span({"shop": "1"})) == {"TRACEPARENT": PARENT, "TRACESTATE": "shop=1"}
    assert context_of(environment_of_check()) == {}


def test_a_command_gets_no_span_where_traces_are_off() -> None:
    environment = in_span({})

    assert context_of(environment) == {}
    assert {environment[name] for name in SECRETS} == {"inherited"}
    assert trace_settings() == {}


@pytest.mark.usefixtures("traced")
def test_only_a_program_of_interlock_gets_the_key_of_the_receiver() -> None:
    environment = in_span({})

    assert not environment.keys() & {*SECRETS}
    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "inherited"
    assert trace_settings() == {"INTERLOCK_TRACES": "otlp", **dict.fromkeys(SECRETS, "inherited")}


class GlossarySettings(SystemSettings):
    """The settings of a system that does not come with Interlock."""

    glossary_key: str = Field("", repr=False)


def test_a_trusted_module_reads_the_settings_of_a_system_of_others(tmp_path: Path) -> None:
    variables = {"INTERLOCK_SYSTEMS": "tasks,glossary", "INTERLOCK_GLOSSARY_KEY": "hush"}
    settings = read_settings(variables)
    settings.admit([GlossarySettings])
    command = Command(arguments=(), folder=tmp_path, sandbox=None)

    trusted = command.trusted("glossary", settings, "glossary_key")

    assert read_settings(trusted.environment).of(GlossarySettings).glossary_key == "hush"
    with pytest.raises(SettingsError, match="no system that runs has the setting INTERLOCK_X"):
        command.trusted("glossary", settings, "x")

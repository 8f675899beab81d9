"""The environment of the commands that Interlock runs for work. It names the span they run in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from interlock.workers.config import (
    PREFIX,
    WORK_VARIABLES,
    Settings,
    SettingsError,
    setting_names,
)
from interlock.workers.engine.trace_context import CONTEXT_VARIABLES, Tracing, span_variables
from interlock.workers.inherited import inherited, python_variables
from interlock.workers.setting_values import VariableModel, as_variable
from interlock.workers.text import cut_to_bytes

# Linux refuses to start a process with a longer variable (MAX_ARG_STRLEN of execve(2), which counts
# the name, the equals sign and the NUL at the end).
VARIABLE_BYTES_MAX = 131_072
CUT = "\n[cut: a variable has at most 131,072 bytes]"
# OpenTelemetry's variables that may hold the key of the receiver of spans.
_SECRETS = re.compile(r"OTEL_EXPORTER_OTLP_(\w+_)?HEADERS")


def environment_of_check() -> dict[str, str]:
    """Return the environment of a command that checks work.

    It is this process's own without settings, and without variables that could lead the command to
    another place than its folder. If traces are on, the variables name the span that the command
    runs in, and those with a secret of the receiver of spans are left out. The span in which this
    process was started is never passed on.
    """
    left_out = {*CONTEXT_VARIABLES, *trace_settings()}
    own = {name: value for name, value in inherited().items() if name not in left_out}
    return {**own, **span_variables()}


def environment_of_work(
    *fields: Mapping[str, str], settings: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the environment of a command of an agent, job or codon; `fields` describe its work.

    `settings` are what `environment_of_program` returns, for a program that may read them.
    """
    variables = environment_of_check()
    for part in (*fields, settings):
        variables.update({name: _fitting(name, value) for name, value in part.items()})
    known = {*(f"{PREFIX}{name.upper()}" for name in setting_names()), *settings}
    work = [name for name in variables if name.startswith(PREFIX) and name not in known]
    return {**variables, WORK_VARIABLES: ",".join(work)}


def _fitting(name: str, value: str) -> str:
    """Return the value of a variable, cut if a process cannot be started with the whole one."""
    return cut_to_bytes(value, VARIABLE_BYTES_MAX - len(name) - len("=\0"), end=CUT)


def environment_of_program(settings: Settings, *names: str) -> dict[str, str]:
    """Return what a program of Interlock that does work gets beside the environment of work.

    These are the settings of these names that are set, where Interlock is found, and what its spans
    need. No other program may get them: some of them are secrets. A setting of a system that does
    not come with Interlock is read only where that system runs, so `systems` goes with it. Raises
    SettingsError for a name that no setting has.
    """
    parts: tuple[VariableModel, ...] = (settings, *settings.parts)
    holders = {name: part for part in parts for name in type(part).model_fields}
    wanted = {*names, *(("systems",) if set(names) - type(settings).model_fields.keys() else ())}
    if unknown := sorted(wanted - holders.keys()):
        raise SettingsError(f"no system that runs has the setting {PREFIX}{unknown[0].upper()}")
    given = {name: getattr(holders[name], name) for name in wanted}
    variables = {
        f"{PREFIX}{name.upper()}": as_variable(value)
        for name, value in given.items()
        if value not in (None, {})
    }
    return {**variables, **trace_settings(), **python_variables()}


def trace_settings() -> dict[str, str]:
    """Return the variables by which a program of Interlock sends spans too; {} if traces are off.

    No other program may get them: one of them may hold the key of the receiver.
    """
    if Tracing.tracer is None:
        return {}
    secrets = {name: value for name, value in os.environ.items() if _SECRETS.fullmatch(name)}
    return {f"{PREFIX}TRACES": "otlp", **secrets}

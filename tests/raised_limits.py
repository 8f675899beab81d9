"""Limits of the product that are raised, so that no test fails because the computer is slow.

A test of a limit sets it to a small value itself.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from interlock.git import program
from interlock.kernel.store import connect, publications
from interlock.systems.runs.codon import execution, rig
from interlock.systems.tasks import supervisor as task_supervisor
from interlock.systems.webhooks import post
from interlock.workers.engine import agent_output, diff_calls, diff_publications
from interlock.workers.processes import process_group
from interlock.workers.processes.agent import contained, watchdog_client
from interlock.workers.supervision import (
    command,
    leftovers,
    publishing,
)

SECONDS = 180.0
AN_HOUR_MS = 3_600_000

RaisedLimit = tuple[ModuleType, str, Any]

# Raised as well in the workers and supervisors that are forked from the preloaded process.
EVERYWHERE: tuple[RaisedLimit, ...] = (
    # How long a shell may take to check a command, and a watchdog to start and to say something.
    (command, "LIMIT_S", SECONDS),
    (watchdog_client, "START_S_MAX", SECONDS),
    (watchdog_client, "SILENCE_S_MAX", SECONDS),
    # How long an endpoint may take to answer.
    (post, "TIMEOUT_S", SECONDS),
    # How long an agent that prints and reports nothing runs before it counts as working. One that
    # is to fail at its start has to fail sooner; one that a test waits for has to print or report.
    (task_supervisor, "ALIVE_AFTER_S", SECONDS),
    # How long the processes of a codon may take to end after SIGTERM.
    (execution, "CODON_END_S", SECONDS),
    (rig, "CODON_END_S", SECONDS),
    # How long the last output of a sentinel may take to be read.
    (process_group, "_REAP_S", SECONDS),
)
IN_TESTS: tuple[RaisedLimit, ...] = (
    *EVERYWHERE,
    # A test may count how often a store is asked.
    (connect, "TIMEOUT_S", 60.0),
    (connect, "GREETING_S", 60.0),
    # A question has to count until it is answered, and an answer until it is read. A diff would be
    # made anew meanwhile, and tests count how often one was made.
    (publications, "ASKED_MS", AN_HOUR_MS),
    (agent_output, "ANSWER_MS", AN_HOUR_MS),
    (diff_calls, "ANSWER_MS", AN_HOUR_MS),
    (diff_calls, "FRESH_MS", AN_HOUR_MS),
    (publishing, "PERIOD_MS", AN_HOUR_MS),
    # How long the last output of a check may take to be read, and a group of processes to end.
    (contained, "_READ_S", SECONDS),
    (program, "_REAP_S", SECONDS),
    (leftovers, "END_S_MAX", SECONDS),
    # How long git may take for a diff.
    *(
        (module, name, getattr(module, name)._replace(within_s=SECONDS))
        for module, name in (
            (diff_calls, "CARD_LIMITS"),
            (diff_calls, "LIMITS"),
            (diff_publications, "LIMITS"),
        )
    ),
)

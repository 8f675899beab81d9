"""Work in a sandbox answers no card: no door of `interlock up` lets it in.

Outside of a sandbox the same program, run by the same user, comes in at each of these doors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.workers.client import Client
from interlock.workers.up_file import HEADER_FILE, TOKEN_FILE, local_settings
from tests.end_to_end.tasks.coding import FIXES, make_repository
from tests.end_to_end.up import INTERLOCK, LIMIT_S, Up, running_up

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here"),
    pytest.mark.timeout(300),
    pytest.mark.slow(minutes=1),
]
DBSIZE = "import redis, sys; print(redis.Redis(unix_socket_path=sys.argv[1]).dbsize())"
# What an agent tries, and what each prints if it succeeds. The last one answers the card.
DOORS = {
    "reads the token": f"cat $UP_HOME/{TOKEN_FILE}",
    "calls the API with a header that it found": f"for file in $UP_HOME/{HEADER_FILE}"
    f" $UP_FOLDER/.interlock/{HEADER_FILE} ~/.interlock/{HEADER_FILE}; do"
    " curl -sf -H @$file $API/v1/cards | grep victim; done",
    "finds the home through a process": f"cat /proc/[0-9]*/root/$UP_HOME/{TOKEN_FILE}",
    "reads the settings of a worker": "grep -sl INTERLOCK_STORE_URL=unix /proc/[0-9]*/environ",
    "sees the process of up": "tr '\\0' ' ' < /proc/$UP_ID/cmdline | grep interlock",
    "reads the descriptors of up": "ls -l /proc/$UP_ID/fd | grep socket",
    "signals up": "kill -0 $UP_ID && echo reached",
    "talks to the store": f"$PYTHON -c '{DBSIZE}' $STORE",
    "lists the cards": "INTERLOCK_HOME=$UP_HOME $INTERLOCK cards --json | grep victim",
    "lists the cards over the store's address": "INTERLOCK_STORE_URL=unix://$STORE $INTERLOCK"
    " cards --json | grep victim",
    "gets a link to the console": "INTERLOCK_HOME=$UP_HOME $INTERLOCK console --json | grep code=",
    "reads the login of Flower": "cat $UP_HOME/flower.url",
    "reads the worktree of another task": "cat $OTHER/answer.txt",
    "answers the card": "INTERLOCK_HOME=$UP_HOME $INTERLOCK decide b/victim approve"
    " --proposal $PROPOSAL && echo answered",
}
# An open sandbox, that of jobs, keeps the ids of processes.
OF_AN_OPEN_ONE = {"sees the process of up", "signals up"}
# Calls without what `up` keeps in its home; each prints the status of its answer.
CALL = "curl -s -o /dev/null -w '%{http_code}\\n'"
GUESSES = (
    f"{CALL} $API/v1/cards",
    f"{CALL} -H 'X-Interlock-Actor: ann' $API/v1/cards",
    f"{CALL} -H 'Authorization: Bearer il_6f1d20c39ab4_guess' $API/v1/cards",
    f"{CALL} -H 'Authorization: Bearer owner' -H 'Cookie: session=owner' $API/v1/cards",
    (
        f"{CALL} -H 'Content-Type: application/json' -H 'Idempotency-Key: a'"
        ' -d "{\\"choice\\": \\"approve\\", \\"proposal\\": \\"$PROPOSAL\\"}"'
        " $API/v1/records/b/victim:decide"
    ),
)
UNAUTHORIZED = "401"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Run `interlock up` with agents in sandboxes, which can write to all that is not hidden."""
    folder = tmp_path / "up"
    folder.mkdir()
    writable = {"INTERLOCK_SANDBOX": "required", "INTERLOCK_SANDBOX_WRITABLE": str(folder)}
    with running_up(folder, **writable) as started:
        yield started


def submit(client: Client, up: Up, name: str, agent: str, **more: Any) -> None:
    """Submit a task to an agent."""
    given = {"title": name, "repo": str(up.folder / "repo"), "agent": agent, **more}
    client.submit(given, id=f"b/{name}", machine="task")


def variables(up: Up, victim: Mapping[str, Any]) -> dict[str, str]:
    """Return what an agent could guess, find in the documents, or was told by somebody."""
    return {
        "UP_HOME": str(up.home),
        "UP_FOLDER": str(up.folder),
        "UP_ID": str(up.process_id),
        "API": up.addresses["api"],
        "STORE": up.addresses["store"].removeprefix("unix://"),
        "PYTHON": sys.executable,
        "INTERLOCK": INTERLOCK,
        **victim,
    }


def script(values: Mapping[str, str]) -> str:
    """Return a program that tries each door, and prints which it came in by."""
    exports = "\n".join(f"export {name}='{value}'" for name, value in values.items())
    doors = "\n".join(
        f'found=$({attempt} 2>/dev/null); [ -n "$found" ] && echo "@@{name}"'
        for name, attempt in DOORS.items()
    )
    guesses = "\n".join(f'echo "@guess $({attempt})"' for attempt in GUESSES)
    return f"{exports}\n{guesses}\n{doors}\ntrue\n"


def came_in(printed: str) -> set[str]:
    """Return the doors by which a program came in, and check that no guess was let in."""
    guessed = [line.split()[1] for line in printed.splitlines() if line.startswith("@guess")]
    assert guessed == [UNAUTHORIZED] * len(GUESSES), printed
    return {name for name in DOORS if f"@@{name}\n" in printed}


def test_an_agent_and_a_job_in_a_sandbox_come_in_by_no_door_and_answer_no_card(up: Up) -> None:
    make_repository(up.folder / "repo")
    client = Client(local_settings({"INTERLOCK_HOME": str(up.home)}), actor="person")
    submit(client, up, "victim", FIXES, needs_approval=True)
    card = client.wait("b/victim", timeout_s=LIMIT_S)
    assert card.state == "pending_approval", card.data
    turn = client.show("b/turn~victim~1").data["worktree"]
    tries = up.folder / "tries.sh"
    tries.write_text(script(variables(up, {"PROPOSAL": card.proposal, "OTHER": turn})))

    submit(client, up, "attacker", f"bash {tries}")
    client.wait("b/attacker", timeout_s=LIMIT_S)

    attacker = client.show("b/attacker")
    printed = (up.home / "supervisors" / "b" / "attacker~1" / "output.log").read_text()
    assert attacker.data["claim"]["sandbox"] == "bubblewrap"
    assert came_in(printed) == set()
    phases = [{"worker": {"command": f"bash {tries} > {up.folder}/printed_by_job"}}]
    job = {"phases": phases, "folder": str(up.folder), "auto_approve": True}
    client.submit(job, id="g/job", machine="job")
    assert client.wait("g/job", timeout_s=LIMIT_S).state == "success"
    assert came_in((up.folder / "printed_by_job").read_text()) == OF_AN_OPEN_ONE
    assert client.show("b/victim").proposal == card.proposal, "nobody has answered"

    outside = subprocess.run(
        ["/usr/bin/env", "bash", str(tries)],
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        cwd=up.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert came_in(outside.stdout) == set(DOORS), outside.stdout
    assert json.loads(up.command("show", "b/victim", "--json"))["state"] != "pending_approval"

"""The command `up`: a whole deployment on this computer, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext, suppress
from itertools import islice

from interlock.kernel.errors import KernelError
from interlock.kernel.machine import Machine
from interlock.kernel.table import Active
from interlock.workers.client import Client
from interlock.workers.config import Settings
from interlock.workers.engine.sessions import new_link, sessions_of
from interlock.workers.ops.deployment import FLOWER_FILE, STOP_S, Deployment
from interlock.workers.ops.system_files import SystemFiles
from interlock.workers.setting_values import without_login
from interlock.workers.terminal import screen
from interlock.workers.up_file import telling

RECORDS_MAX = 1_000
POLL_S = 0.1
ENDING = f"ends; what is at work has {STOP_S:g} s to come to its end"
STDOUT = 1
NO_LINK = (
    "what is printed here goes into a file, which others may read, so it has no link that signs a "
    "browser in: `interlock console` prints one"
)


def keep_up(
    settings: Settings,
    *,
    announce: Callable[[Mapping[str, str]], None],
    port: int | None = None,
    flower_port: int | None = None,
    api_port: int | None = None,
    reloads: bool = False,
) -> None:
    """Start everything, announce its addresses, and keep it running until Ctrl-C or SIGTERM.

    With `reloads` the processes are started anew when a file of INTERLOCK_SYSTEMS changes.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    left: dict[str, float] = {}
    since_ns = time.time_ns()
    try:
        with (
            Deployment(
                settings,
                pages=True,
                pools=True,
                port=port,
                flower_port=flower_port,
                api_port=api_port,
            ) as deployment,
            telling(deployment.settings, deployment.home, deployment.api_url),
        ):
            announce(addresses_of(deployment))
            try:
                with closing(SystemFiles(since_ns)) if reloads else nullcontext() as files:
                    keep_alive(deployment, files)
            except KeyboardInterrupt:
                # While the store still runs.
                left = running_agents(Client(deployment.settings))
                screen.err.print(ENDING, style="dim")
                raise
    except KeyboardInterrupt:
        screen.err.print("ended", style="dim")
        if left:
            # A store that the settings name stays, and agents that use it need nothing of `up`.
            screen.notice(going_on(left, store_ends="store_url" not in settings.model_fields_set))


def addresses_of(deployment: Deployment) -> dict[str, str]:
    """Return where everything is, without a password or login: others may see what is printed."""
    return {
        "store": without_login(deployment.settings.store),
        "api": deployment.api_url,
        "console": console_link(deployment),
        "flower": deployment.flower_url,
        "login": str(deployment.home / FLOWER_FILE),
        "logs": str(deployment.log("worker").parent),
    }


def console_link(deployment: Deployment) -> str:
    """Return where a browser opens the console; the first that does is signed in, if need be.

    Nobody is by an address that is written to a file: agents and other users may read it.
    """
    if not (deployment.api_url and deployment.token):
        return deployment.api_url
    if writes_to_file():
        deployment.notices.append(NO_LINK)
        return deployment.api_url
    sessions = sessions_of(Client(deployment.settings).dispatch)
    return new_link(sessions, deployment.api_url, deployment.token)


def writes_to_file() -> bool:
    """Whether what this process prints is kept in a file."""
    with suppress(OSError):
        return stat.S_ISREG(os.fstat(STDOUT).st_mode)
    return False


def keep_alive(deployment: Deployment, files: SystemFiles | None = None) -> None:
    """Start processes of a deployment again whenever one ends, or `files` change, for ever."""
    while True:
        for notice in deployment.revive():
            screen.notice(notice)
        if files and (notice := files.reload(deployment)):
            screen.notice(notice)
        time.sleep(POLL_S)


def going_on(agents: Mapping[str, float], *, store_ends: bool) -> str:
    """Return the sentence about agents that go on after the end of `up`. See `running_agents`."""
    one = len(agents) == 1
    goes = "1 agent goes" if one else f"{len(agents)} agents go"
    until = "until it is done" if one else "until they are done"
    if store_ends:
        kept = "keeps it" if one else "keeps them"
        until = f"for about {min(agents.values()):g} s; `interlock up` before that {kept}"
    return f"{goes} on {until}: {', '.join(agents)}"


def running_agents(client: Client) -> dict[str, float]:
    """Return the agents that run on this computer under supervisors, which outlive the workers.

    Each has the seconds of its lease: about so long its supervisor goes on without the store. Of
    each machine only the first RECORDS_MAX records are read, as nothing has been stopped yet.
    """
    found = {}
    with suppress(KernelError):
        for machine in filter(has_agents, client.machines.values()):
            active = [str(each.state) for each in machine.stages if isinstance(each, Active)]
            ids = client.dispatch.views.ids(machine, states=active) if active else iter(())
            for record in client.dispatch.views.each_record(islice(ids, RECORDS_MAX)):
                leased = [entry.name for entry in record.entries if entry.state == "leased"]
                local = record.data.get("host") in (None, client.settings.host)
                if leased and local and record.data.get("pid"):
                    work = record.data.get("task") or record.id
                    effects = (client.dispatch.effect(machine.name, name) for name in leased)
                    lease_s = min(effect.lease_ms for effect in effects) / 1000
                    found[f"{work} (process {record.data['pid']})"] = lease_s
    return found


def has_agents(machine: Machine) -> bool:
    """Return whether the records of a machine have the process of an agent."""
    return any("pid" in payload.model_fields for payload in machine.payloads.values())

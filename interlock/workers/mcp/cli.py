"""The command `interlock mcp`."""

from __future__ import annotations

from typing import Annotated

import typer
from mcp.server.mcpserver import Context

from interlock.kernel.errors import ForbiddenError
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.engine.presence import Presence
from interlock.workers.mcp.tool_call import Verbs
from interlock.workers.mcp.tool_server import ToolServer
from interlock.workers.mcp.tools import offered_tools
from interlock.workers.remote.client import HttpClient
from interlock.workers.terminal.command import Actor, Shell, guarded

READ_ONLY = frozenset({Act.READ})


@guarded(has_json=False)
def mcp(
    shell: Shell,
    write: Annotated[
        bool, typer.Option("--write", help="Offer the tools that submit, cancel and decide too.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Let `submit` name commands to run too; needs --write.")
    ] = False,
    name: Actor = "mcp",
) -> None:
    """Serve records as tools of agents (Model Context Protocol) on stdin and stdout."""
    connected = shell.caller(name)
    presence = None
    if isinstance(connected, Client):
        presence = Presence(connected.dispatch)
        presence.begin("mcp", f"mcp@{connected.dispatch.holder}")
    try:
        build_server(connected, write=write, run=run).run("stdio")
    finally:
        if presence:
            presence.end()


def build_server(connected: Verbs, *, write: bool, run: bool = False) -> ToolServer:
    """Return a server whose tools act by this client; only with `write` do they change records.

    Only with `run` may they name commands to run; an API asks the roles of its caller instead.
    """
    if isinstance(connected, Client) and not run:
        connected.run_refusal = "this server was started without --run"
    acts = READ_ONLY
    if write:
        acts |= {Act.SUBMIT} if isinstance(connected, Client) else _acts_over(connected)

    def reach(_context: Context, act: Act, _record_id: str = "") -> Verbs:
        if act not in acts:
            raise ForbiddenError(f"this server may not {act}: it was started without --write")
        return connected

    return ToolServer(offered_tools(reach), acts)


def _acts_over(connected: HttpClient) -> frozenset[Act]:
    """Return what the caller of an API may do there by tools."""
    me = connected.me()
    # A name that is only claimed is nobody's: no person is known to decide.
    offered = (Act.SUBMIT, Act.DECIDE) if me["proved"] else (Act.SUBMIT,)
    return frozenset(act for act in offered if act.name.lower() in me["allowed"])

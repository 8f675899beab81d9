"""The command `interlock mcp`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from mcp.server.mcpserver import Context, MCPServer

from interlock.kernel.errors import ForbiddenError
from interlock.workers.access.roles import Act
from interlock.workers.client import Client
from interlock.workers.mcp.tools import Verbs, make_server, offered_tools
from interlock.workers.terminal.answer import Actor, caller, guarded

READ_ONLY = frozenset({Act.READ})


@guarded
def mcp(
    write: Annotated[
        bool, typer.Option("--write", help="Offer the tools that submit, cancel and decide too.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Let `submit` name commands to run too; needs --write.")
    ] = False,
    name: Actor = "mcp",
) -> None:
    """Serve records as tools of agents (Model Context Protocol) on stdin and stdout."""
    build_server(caller(name), write=write, run=run).run("stdio")


def build_server(connected: Verbs, *, write: bool, run: bool = False) -> MCPServer[Any]:
    """Return a server whose tools act by this client; only with `write` do they change records.

    Only with `run` may they name commands to run; an API asks the roles of its caller instead.
    """
    acts = READ_ONLY
    if isinstance(connected, Client) and not run:
        connected.run_refusal = "this server was started without --run"
    if write:
        acts |= {Act.SUBMIT}
        # A name that is only claimed is nobody's: no person is known to decide.
        if not isinstance(connected, Client) and connected.me()["proved"]:
            acts |= {Act.DECIDE}

    def reach(_context: Context, act: Act, _record_id: str = "") -> Verbs:
        if act not in acts:
            raise ForbiddenError(f"this server may not {act}: it was started without --write")
        return connected

    return make_server(offered_tools(reach, acts))

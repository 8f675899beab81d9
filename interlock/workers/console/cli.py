"""The command `interlock serve`."""

from __future__ import annotations

import gc
import logging
import resource
import socket
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer

from interlock.workers.api.loopback import is_loopback
from interlock.workers.config import API_PORT, SettingsError
from interlock.workers.console.docs_site import NOT_BUILT, is_built, serve_site
from interlock.workers.engine.presence import Presence
from interlock.workers.engine.sessions import LINK_S, new_link, sessions_of
from interlock.workers.gateways.server import PortTakenError
from interlock.workers.processes.port_user import user_of_port
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.terminal.page import Sentence
from interlock.workers.up_file import api_of_up, read_token, settings_here

log = logging.getLogger(__name__)

STARTUP_FAILED = 3  # the exit code of uvicorn's own program
FILES_BESIDE = 2_000  # of connections that do not listen, to the store, and of the log


@guarded(has_json=False)
def serve(
    shell: Shell,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port to listen on.")] = API_PORT,
    listener: Annotated[
        int | None,
        typer.Option("--socket", help="The number of an open socket that listens already."),
    ] = None,
) -> None:
    """Serve the console and the HTTP API until Ctrl-C. `interlock token` makes access tokens."""
    try:
        import uvicorn

        from interlock.workers.api.followers import LISTENERS_MAX
        from interlock.workers.api.slow_heads import HeadTimeoutProtocol
        from interlock.workers.console.app import create_console
        from interlock.workers.engine.log_lines import log_as_json
        from interlock.workers.engine.trace_context import start_traces
        from interlock.workers.ops.process_metrics import ProcessMetrics, serve_metrics
    except ModuleNotFoundError as missing:
        problem = f"the console and the API need {missing.name}: pip install 'interlock[web]'"
        raise SettingsError(problem) from missing
    interlock = shell.client("producer")
    sockets = None if listener is None else [socket.socket(fileno=listener)]
    if interlock.settings.auth != "tokens":
        check_loopback(str(sockets[0].getsockname()[0]) if sockets else host)
    interlock.dispatch.greet()
    presence = Presence(interlock.dispatch)
    presence.begin("api", f"api@{interlock.settings.host}")
    start_traces(interlock.settings, "api")
    name = f"api@{interlock.settings.host}"
    serve_metrics(interlock.settings, ProcessMetrics(name, interlock.dispatch.call_times))
    allow_open_files(LISTENERS_MAX + FILES_BESIDE)
    # What a caller says of its address is not believed: it could evade the limit on bad tokens.
    options: dict[str, Any] = {"host": host, "port": port, "proxy_headers": False}
    options["http"] = HeadTimeoutProtocol
    if interlock.settings.log_format == "json":
        log_as_json()
        options["log_config"] = None
    console = create_console(interlock)
    # Objects that are loaded by now stay. A garbage collection that visited them again would stop
    # all requests for a tenth of a second, and longer on a busy computer.
    gc.collect()
    gc.freeze()
    server = uvicorn.Server(uvicorn.Config(console, **options))
    try:
        with suppress(KeyboardInterrupt):
            server.run(sockets)
    except SystemExit:
        # So uvicorn ends where it cannot listen. Its own words are in the log.
        if not sockets and user_of_port(port):
            raise PortTakenError(port) from None
        raise
    finally:
        presence.end()
    if not server.started:
        raise typer.Exit(STARTUP_FAILED)


@guarded
def console(shell: Shell) -> None:
    """Print a link that opens the console of `interlock up` in a browser, and signs it in."""
    settings = settings_here()
    address = api_of_up(settings.home)
    if not address:
        raise SettingsError(
            "no console runs here: start it with `make up` or `interlock up`, which "
            "need pip install 'interlock[web]' for it, or open the address of `interlock serve`"
        )
    # Where access tokens are asked for, there is no such token.
    token = read_token(settings.home)
    link = new_link(sessions_of(shell.client().dispatch), address, token)
    shell.answer({"link": link}, show=_link)


def _link(value: dict[str, str]) -> list[Sentence]:
    minutes = LINK_S // 60
    said = f"It signs one browser in, within {minutes} minutes."
    return [Sentence(value["link"]), Sentence(said, "soft")]


@guarded
def docs(
    shell: Shell,
    port: Annotated[
        int, typer.Option(max=65_535, min=0, help="The port to serve it at; 0: a free one.")
    ] = 0,
) -> None:
    """Print the address of the documentation. Without `interlock up`, serve it until Ctrl-C."""
    if not is_built():
        raise SettingsError(NOT_BUILT)
    show = partial(shell.answer, show=lambda value: [Sentence(value["address"])])
    if api := api_of_up(settings_here().home):
        show({"address": f"{api}/docs/"})
    else:
        serve_site(port, lambda address: show({"address": address}))


def check_loopback(host: str) -> None:
    """Raise SettingsError if other computers could reach an address where no name is proved."""
    if not is_loopback(host):
        raise SettingsError(
            f"--host {host}: nothing proves the names of callers (INTERLOCK_AUTH is not tokens), so"
            " only an address of this computer can be served, such as 127.0.0.1; unset"
            " INTERLOCK_AUTH"
        )


def allow_open_files(wanted: int) -> None:
    """Let this process open so many files, because each connection is one.

    A process that may open no more accepts no connection at all. Where the system allows fewer, a
    line of the log says how many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft < wanted:
        log.warning(
            "at most %d files can be open here, so some listeners may find no room: "
            "raise the hard limit (ulimit -Hn) to %d",
            soft,
            wanted,
        )

"""Builds the application that `interlock serve` runs: the HTTP API, and the console beside it."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from interlock.workers.api.app import create_app
from interlock.workers.client import Client
from interlock.workers.console import entrance, inbox, pages
from interlock.workers.console.flow import FlowWatch
from interlock.workers.console.render import FOLDER


def create_console(client: Client) -> FastAPI:
    """Return the API over a client, with its console."""
    app = create_app(client)
    app.state.flow = FlowWatch(client.dispatch)
    app.include_router(entrance.router)
    app.include_router(inbox.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=FOLDER / "static"))
    return app

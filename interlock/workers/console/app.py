"""Builds the application that `interlock serve` runs: the HTTP API, and the console beside it."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from interlock.kernel.errors import CallError
from interlock.workers.access.known_sessions import KnownSessions
from interlock.workers.access.roles import roles_named
from interlock.workers.api.app import add_routes, create_app
from interlock.workers.client import Client
from interlock.workers.console import (
    answers,
    bulk,
    entrance,
    fleet,
    inbox,
    live_parts,
    operate,
    pages,
    record,
    systems,
)
from interlock.workers.console.docs import Docs
from interlock.workers.console.flow import FlowWatch
from interlock.workers.console.live import Looks
from interlock.workers.console.oidc import Provider
from interlock.workers.console.render import FOLDER, answer_wrong_addresses
from interlock.workers.console.series import Samples
from interlock.workers.console.sessions import unproved_name
from interlock.workers.console.system_pages import pages_of
from interlock.workers.engine.escalation import check_escalations

PAGES = (
    *(entrance, inbox, answers, bulk, operate),
    *(systems, record, live_parts, fleet, pages),
)


def create_console(client: Client) -> FastAPI:
    """Return the API over a client, with its console.

    Raises CallError for wrong settings, SystemsError for a page that cannot be imported.
    """
    settings = client.settings
    if settings.oidc_issuer and not (settings.oidc_client_id and settings.oidc_roles):
        raise CallError("with INTERLOCK_OIDC_ISSUER, set INTERLOCK_OIDC_CLIENT_ID and _ROLES too")
    if settings.oidc_roles:
        roles_named(settings.oidc_roles.values())
    check_escalations(settings)
    pages_of(client)  # a page that cannot be imported is an error at the start
    samples = Samples(client.dispatch)
    app = create_app(client, samples.running)
    answer_wrong_addresses(app)
    app.state.nameless = unproved_name(client)
    app.state.samples, app.state.looks = samples, Looks()
    app.state.known_sessions = KnownSessions(app.state.keyring, client.now_ms)
    app.state.provider = Provider(settings) if settings.oidc_issuer else None
    app.state.flow = FlowWatch(client.dispatch)
    for module in PAGES:
        add_routes(app, module.router)
    app.mount("/docs", GZipMiddleware(Docs()))
    app.mount("/static", GZipMiddleware(StaticFiles(directory=FOLDER / "static")))
    return app

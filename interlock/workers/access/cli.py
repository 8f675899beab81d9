"""The commands `interlock token`, for people who reach the store or are admins of the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from interlock.kernel.store.people import AccessToken
from interlock.workers.access.roles import Act, Caller, Role, roles_named
from interlock.workers.access.tokens import LIFETIME_DAYS_MAX, make_token
from interlock.workers.client import Client
from interlock.workers.terminal.command import Actor, Shell, guarded
from interlock.workers.terminal.page import Part, Sentence, Table, Time
from interlock.workers.terminal.page_parts import fields
from interlock.workers.terminal.screen import program

app = typer.Typer(help="Make, list and revoke access tokens for the HTTP API.")
DAYS = 90


@app.command("create")
@guarded(actor="person")
def create(
    shell: Shell,
    holder: Annotated[str, typer.Argument(help="The name that the log will have for its acts.")],
    roles: Annotated[
        list[Role], typer.Option("--role", help="What its holder may do; can be repeated.")
    ],
    machines: Annotated[
        list[str] | None,
        typer.Option("--machine", help="Only records of this machine; can be repeated."),
    ] = None,
    days: Annotated[
        int,
        typer.Option(min=0, max=LIFETIME_DAYS_MAX, help="Days until it expires; 0 is never."),
    ] = DAYS,
) -> None:
    """Make an access token and print it. It cannot be printed again."""
    interlock, named = shell.caller(), machines or ()
    if isinstance(interlock, Client):
        text, kept = make_token(
            interlock.dispatch.access_tokens,
            holder,
            roles=roles,
            machines=named,
            known_machines=interlock.machines,
            days=days,
            made_by=shell.actor,
        )
    else:
        text, kept = interlock.create_token(holder, roles=roles, machines=named, days=days)
    shell.answer({"token": text, **shown(kept)}, show=_made)


@app.command("list")
@guarded
def list_tokens(shell: Shell) -> None:
    """List all access tokens, the oldest first. Their secrets are not stored."""
    interlock = shell.caller()
    tokens: Sequence[AccessToken] = (
        interlock.dispatch.access_tokens.all()
        if isinstance(interlock, Client)
        else interlock.tokens()
    )
    found, now_ms = [shown(token) for token in tokens], interlock.now_ms()
    shell.answer(found, show=lambda _: [_table(tokens, now_ms)], now_ms=now_ms)


@app.command("revoke")
@guarded(actor="person")
def revoke(
    shell: Shell,
    token_id: Annotated[str, typer.Argument(help="The id of the token.", metavar="ID")],
) -> None:
    """Revoke an access token for good: from now on, no call is accepted with it."""
    interlock = shell.caller()
    if isinstance(interlock, Client):
        interlock.dispatch.access_tokens.revoke(token_id, shell.actor)
    else:
        interlock.revoke_token(token_id)
    shell.answer({"id": token_id, "answer": "revoked"}, show=fields)


@guarded
def whoami(shell: Shell, name: Actor = "person") -> None:
    """Show under which name you act, and whether that name is proved or only claimed."""
    interlock = shell.caller(name)
    if isinstance(interlock, Client):
        value = {"name": interlock.actor, "proved": False, "reaches": "the store itself"}
    else:
        value = interlock.me()
    shell.answer(value)


def shown(token: AccessToken) -> dict[str, Any]:
    """Return a token as commands and the API show it, with its times as ISO 8601, or ''."""
    value = asdict(token)
    times = [name for name in value if name.endswith("_ms")]
    return value | {name.removesuffix("_ms"): _time(value.pop(name)) for name in times}


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="seconds") if ms else ""


def _made(made: dict[str, Any]) -> list[Part]:
    limits = f", for {', '.join(made['machines'])} only" if made["machines"] else ""
    expires = f"until {made['expires'][:10]}" if made["expires"] else "for ever"
    roles = ", ".join(made["roles"])
    end = f"{program()} token revoke {made['id']}"
    return [
        Sentence(made["token"]),
        Sentence(f"{made['holder']} has the role {roles}{limits}, {expires}.", "soft"),
        Sentence(_about_commands(made), "soft"),
        Sentence(f"It is not shown again. To end it: {end}", "soft"),
    ]


def _about_commands(made: dict[str, Any]) -> str:
    """Return what a new token lets its holder run."""
    caller_made = Caller(made["holder"], roles_named(made["roles"]))
    if Act.RUN in caller_made.acts:
        return "Its holder may run any command on the computers of the workers."
    return f"Its holder may name no command to run; the role {Role.RUNNER} may."


def _table(tokens: Sequence[AccessToken], now_ms: int) -> Table:
    rows = [
        (
            token.id,
            token.holder,
            _ago(token.created_ms),
            _ago(token.used_ms),
            Time(token.expires_ms, "left") if token.expires_ms > now_ms else _ago(token.expires_ms),
            _ago(token.revoked_ms),
            ", ".join(token.roles),
            ", ".join(token.machines) or "all",
        )
        for token in tokens
    ]
    columns = ("Id", "Holder", "Age", "Used", "Expires", "Revoked", "Roles", "Machines")
    none = "no access tokens: `interlock token create NAME --role ROLE` makes one"
    return Table(columns, rows, none)


def _ago(at_ms: int) -> object:
    return Time(at_ms) if at_ms else ""

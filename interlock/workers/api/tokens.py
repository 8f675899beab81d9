"""The addresses about callers: who the caller is, and the access tokens of all."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from interlock.kernel.store.people import AccessToken
from interlock.workers.access.tokens import make_token
from interlock.workers.api.access import Administering, CallerHere
from interlock.workers.api.models import Fields, MadeToken, Me, NewToken
from interlock.workers.api.problems import PROBLEMS

router = APIRouter(prefix="/v1", tags=["tokens"], responses=PROBLEMS)
TokenId = Annotated[str, Path(description="The id of an access token.")]


@router.get("/me", operation_id="showCaller")
def me(by: CallerHere) -> Me:
    """Return who the caller is: the name in the log, and what it may do."""
    acts = sorted(act.name.lower() for act in by.acts)
    return Me(
        name=by.name,
        proved=by.proved,
        roles=[*by.roles],
        machines=[*by.machines],
        allowed=acts,
    )


@router.get("/tokens", operation_id="listTokens")
def tokens(client: Administering) -> list[AccessToken]:
    """List all access tokens, the oldest first. Their secrets are not stored."""
    return client.dispatch.access_tokens.all()


@router.post("/tokens", operation_id="createToken", status_code=201)
def create_token(new: NewToken, client: Administering, response: Response) -> MadeToken:
    """Make an access token. Its text is in this answer only."""
    response.headers["Cache-Control"] = "no-store"
    text, kept = make_token(
        client.dispatch.access_tokens,
        new.holder,
        roles=new.roles,
        machines=new.machines,
        known_machines=client.machines,
        days=new.days,
        made_by=client.actor,
    )
    return MadeToken(token=text, about=kept)


@router.post("/tokens/{token_id}:revoke", operation_id="revokeToken")
def revoke(token_id: TokenId, client: Administering) -> Fields:
    """Revoke an access token for good: from now on, no call is accepted with it."""
    client.dispatch.access_tokens.revoke(token_id, client.actor)
    return {"id": token_id, "answer": "revoked"}

"""The roles of callers, and what each role allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from interlock.kernel.errors import CallError, ForbiddenError


class Act(StrEnum):
    """What a caller may be allowed to do. The values stand in sentences after `may not`."""

    READ = "read records"
    SUBMIT = "create and cancel records"
    RUN = "name commands that run on the computers of the workers"
    DECIDE = "answer cards"
    OPERATE = "fire triggers, or pause, resume and retry records"
    ADMINISTER = "make and revoke access tokens"


class Role(StrEnum):
    """What the holder of an access token is. A token may have several roles."""

    VIEWER = "viewer"
    PRODUCER = "producer"
    RUNNER = "runner"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"


ALLOWED: Mapping[Role, frozenset[Act]] = {
    Role.VIEWER: frozenset({Act.READ}),
    Role.PRODUCER: frozenset({Act.READ, Act.SUBMIT}),
    Role.RUNNER: frozenset({Act.READ, Act.SUBMIT, Act.RUN}),
    Role.APPROVER: frozenset({Act.READ, Act.DECIDE}),
    # A trigger can do all that an answer does, so who may fire one may also answer.
    Role.OPERATOR: frozenset(Act) - {Act.ADMINISTER},
    Role.ADMIN: frozenset(Act),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the name in the log, and what is allowed. No machines means all of them.

    A name is proved if a token was shown for it, and else as the caller claims it. `token_id` is
    that of this token, or ''.
    """

    name: str
    roles: tuple[Role, ...]
    machines: tuple[str, ...] = ()
    proved: bool = True
    token_id: str = ""

    @property
    def acts(self) -> frozenset[Act]:
        """Everything that one of the roles allows."""
        return frozenset[Act]().union(*(ALLOWED[role] for role in self.roles))

    def check(self, act: Act) -> None:
        """Raise ForbiddenError, with the roles that would allow it, if no role allows an act."""
        if refusal := self.refusal(act):
            raise ForbiddenError(refusal)

    def refusal(self, act: Act) -> str:
        """Return why no role allows an act, with the roles that would allow it; '' if one does."""
        if act in self.acts:
            return ""
        able = ", ".join(role for role in Role if act in ALLOWED[role])
        have = ", ".join(self.roles)
        return f"{self.name} has the role {have} and may not {act}; these may: {able}"

    @property
    def codes(self) -> tuple[str, ...]:
        """What the log says beside a proved name: under which roles its holder acted."""
        return tuple(f"as:{role}" for role in self.roles) if self.proved else ()


def roles_named(names: Collection[str]) -> tuple[Role, ...]:
    """Return the roles with these names, in their order, each once. Raises CallError."""
    known = ", ".join(Role)
    if unknown := sorted(set(names) - set(Role)):
        raise CallError(f"there is no role {unknown[0]!r}; the roles: {known}")
    if not names:
        raise CallError(f"name at least one role; the roles: {known}")
    return tuple(role for role in Role if role in names)

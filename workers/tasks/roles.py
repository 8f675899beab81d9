"""The roles that tasks may name, as a deployment lists them; where none is, each is known."""

from __future__ import annotations

from interlock.kernel.errors import CallError
from interlock.workers.config import Settings

ANY = "any"  # what a task has that names no role


class UnknownRoleError(CallError):
    """Nobody works in this role. Name one that is known, or list it."""

    def __init__(self, role: object, known: tuple[str, ...]) -> None:
        shown = ", ".join((*known, ANY))
        super().__init__(
            f"{str(role)[:80]!r} is no known role; known: {shown} (INTERLOCK_ROLES lists them)"
        )
        self.role = role


def check_role(settings: Settings, role: object) -> None:
    """Refuse a role that is not listed; naming none is always right. Raises UnknownRoleError."""
    known = tuple(one for one in settings.roles if one != ANY)
    if settings.roles and role not in (None, ANY, *known):
        raise UnknownRoleError(role, known)

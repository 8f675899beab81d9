"""The roles of a deployment: INTERLOCK_ROLES may list them, and a task of another is refused."""

from __future__ import annotations

from interlock import CallError, Settings
from interlock.systems.tasks.settings import TaskSettings

ANY_ROLE = "any"  # the role of a task that names none


class UnknownRoleError(CallError):
    """The deployment lists its roles, and this is none of them. Name one of those, or list it."""

    def __init__(self, role: object, known: tuple[str, ...]) -> None:
        shown = ", ".join((*known, ANY_ROLE))
        super().__init__(
            f"{str(role)[:80]!r} is no known role; known: {shown} (INTERLOCK_ROLES lists them)"
        )
        self.role = role


def check_role(settings: Settings, role: object) -> None:
    """Raise UnknownRoleError if the deployment lists its roles and this one is not among them.

    A task may always name no role.
    """
    roles = settings.of(TaskSettings).roles
    known = tuple(name for name in roles if name != ANY_ROLE)
    if roles and role not in (None, ANY_ROLE, *known):
        raise UnknownRoleError(role, known)

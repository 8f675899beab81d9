"""The capabilities of a process: found by name, offered to models, their parameters checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from interlock.kernel.errors import CallError, InvalidPayloadError, KernelError
from interlock.workers.config import Settings
from interlock.workers.gateways.capabilities import mcp
from interlock.workers.gateways.capabilities.canary import interlock_canary
from interlock.workers.gateways.capabilities.capability import (
    Capability,
    CapabilityDefectError,
)
from interlock.workers.gateways.capabilities.decompose import decompose
from interlock.workers.gateways.capabilities.extension import (
    ExtensionError,
    read_extensions,
)
from interlock.workers.gateways.capabilities.result import json_problem
from interlock.workers.text import one_line

NEAR_NAMES_MAX = 3


class UnknownCapabilityError(CallError):
    """No capability has this name. Choose one of the similar names, or add its module."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        listed = "`interlock capabilities` lists those that INTERLOCK_CAPABILITIES names"
        hint = f"did you mean {' or '.join(near)}?" if near else listed
        super().__init__(f"no capability {one_line(name, length_max=80)!r} is loaded; {hint}")
        self.name, self.near = name, tuple(near)


class InvalidParametersError(InvalidPayloadError):
    """The parameters do not fit the capability; `problems` lists each with its path."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        super().__init__(f"the parameters of {name}", problems)
        self.name = name


class MissingRuntimeError(KernelError):
    """The worker did not give a run-time parameter that a capability takes. Correct the worker."""

    def __init__(self, name: str, parameter: str) -> None:
        super().__init__(f"{name} takes the run-time parameter {parameter!r}: give it to bind")


class CapabilityServer(Protocol):
    """A server that offers capabilities from another process. Its methods raise nothing."""

    names: tuple[str, ...]

    def offered(self) -> tuple[Capability, ...]:
        """Return the capabilities that can be called now; the first call may ask the server."""

    def left_out(self) -> Mapping[str, str]:
        """Return why some of `names` cannot be called now; the first call may ask the server."""

    def capability(self, name: str) -> Capability:
        """Return one of `names`, even if the server is down: calling it then gives Failed."""


class Registry:
    """All capabilities of this process, by name. They do not change after it is made.

    That of canaries is found by its name too, but never offered or listed.
    """

    __slots__ = ("_local", "_servers")

    def __init__(
        self, local: Iterable[Capability], servers: Iterable[CapabilityServer] = ()
    ) -> None:
        """Take the capabilities of this process and those of servers.

        Raises CapabilityDefectError if two different capabilities have the same name.
        """
        by_name = {interlock_canary.name: interlock_canary}
        by_server: dict[str, CapabilityServer] = {}
        for capability in local:
            if by_name.setdefault(capability.name, capability) is not capability:
                raise CapabilityDefectError(capability.name, "another one has the same name")
        for server in servers:
            for name in server.names:
                if name in by_name or by_server.setdefault(name, server) is not server:
                    raise CapabilityDefectError(name, "another one has the same name")
        del by_name[interlock_canary.name]
        self._local = MappingProxyType(by_name)
        self._servers = MappingProxyType(by_server)

    def __getitem__(self, name: str) -> Capability:
        """Return a capability. Raises UnknownCapabilityError."""
        if name == interlock_canary.name:
            return interlock_canary
        if name in self._local:
            return self._local[name]
        if name in self._servers:
            return self._servers[name].capability(name)
        near = difflib.get_close_matches(name, sorted(self.names), NEAR_NAMES_MAX)
        raise UnknownCapabilityError(name, near)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a capability of this name, whether its server is up or down."""
        return name in self._local or name in self._servers

    @property
    def local_names(self) -> frozenset[str]:
        """The names of the capabilities of this process, without those of servers."""
        return frozenset(self._local)

    @property
    def names(self) -> frozenset[str]:
        """The names of all capabilities, whether their servers are up or down."""
        return frozenset({*self._local, *self._servers})

    def catalog(self) -> tuple[Capability, ...]:
        """Return the capabilities that a model may choose from, by name.

        An MCP tool whose server does not answer is left out, with a warning in the log. The first
        call in a process may take as long as the slowest server may take to start, so make it
        when the worker starts, not inside an event loop.
        """
        servers = dict.fromkeys(self._servers.values())
        remote = [capability for server in servers for capability in server.offered()]
        return tuple(sorted([*self._local.values(), *remote], key=lambda found: found.name))

    def left_out(self) -> dict[str, str]:
        """Return why capabilities are missing in the catalog, by name."""
        servers = dict.fromkeys(self._servers.values())
        return {name: why for server in servers for name, why in server.left_out().items()}

    def check(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Check the call that a model or a person proposes.

        Raises UnknownCapabilityError, or InvalidParametersError with every problem.
        """
        capability = self[name]
        # A value that JSON cannot express would pass the schema and fail in the log.
        unfit = json_problem(parameters, "parameters")
        if problems := [unfit] if unfit else capability.offered.problems(parameters):
            raise InvalidParametersError(name, problems)

    def bind(
        self, name: str, parameters: Mapping[str, Any], runtime: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments of a call: the parameters and the run-time values.

        Raises InvalidParametersError for parameters that `check` refuses.
        """
        self.check(name, parameters)
        names = self[name].runtime - {"steps"}
        if missing := sorted(names - set(runtime)):
            raise MissingRuntimeError(name, missing[0])
        return {**parameters, **{key: runtime[key] for key in names}}


def open_registry(settings: Settings) -> Registry:
    """Open the capabilities that the settings name. See `load_registry`."""
    return load_registry(settings.capabilities, settings.capabilities_root)


def load_registry(specification: str | None, root: Path = Path()) -> Registry:
    """Build the registry that INTERLOCK_CAPABILITIES describes; `decompose` is always in it.

    Relative files and modules are found in the folder `root`.
    From each module it takes CAPABILITIES or, without that list, every capability in it.
    Starts no server. Raises ExtensionError or CapabilityDefectError.
    """
    extensions = read_extensions(specification, root)
    local = [decompose]
    for module in extensions.modules:
        listed = getattr(module, "CAPABILITIES", None)
        candidates = vars(module).values() if listed is None else listed
        found = [member for member in candidates if isinstance(member, Capability)]
        if listed is not None and len(found) != len(listed):
            raise ExtensionError(module.__name__, "CAPABILITIES has members without @capability")
        # A module that imports another's capability shows the same object again.
        local += [new for new in found if all(new is not known for known in local)]
    return Registry(local, mcp.servers(extensions.servers))

"""The tables in which an operator declares an MCP server, and the check of what it lists."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

NOT_REVIEWED = "?"  # in place of a fingerprint: the refusal then names the right one
_Severity = Literal["low", "medium", "high"]


class ToolTable(BaseModel):
    """One [[mcp.tool]]: the operator's declaration of a tool. The server's own hints are ignored.

    If `description` and `parameters` are given, the server is not asked for them. `sha256` is a
    fingerprint of the tool as it was reviewed; a tool that differs is refused. `runtime` sets
    parameters of the tool to run-time values, as in {request_id = "key"}; neither the model nor a
    person sees these parameters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str = Field(min_length=1)
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None
    idempotent: bool
    irreversibility: _Severity
    regret_potential: _Severity | None = None
    risk_amplifier: bool = False
    requires_post_review: bool = False
    deadline_s: float = 60.0
    examples: tuple[str, ...] = ()
    runtime: dict[str, Literal["record_id", "key", "item_ids", "token_number"]] = {}
    sha256: str | None = None

    @property
    def capability_name(self) -> str:
        """The name of the capability: `name`, or without it the name of the tool."""
        return self.name or self.tool

    @property
    def is_complete(self) -> bool:
        """Whether the table has all that a catalog needs."""
        return bool(self.description) and self.parameters is not None


class McpTable(BaseModel):
    """One [[mcp]]: how to start a server, in the file's folder or in `cwd` below it; or its `url`.

    The command `{python}` is the interpreter of this process. A server gets HOME, PATH and similar
    variables and those in `env`, but not the worker's own settings and keys. One with an address is
    shown the token in the worker's variable `token_variable`, and each of its tools needs `sha256`:
    others can change it at any time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    command: str = ""
    url: str = ""
    token_variable: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "."
    start_s: float = Field(default=15.0, gt=0, le=120)
    tool: tuple[ToolTable, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_place(self) -> McpTable:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either a command or a url")
        if not self.url:
            return self
        check_address(self.url)
        if of_commands := sorted({"args", "env", "cwd"} & self.model_fields_set):
            raise ValueError(f"{of_commands[0]} is for a server with a command")
        if open_tools := [tool.tool for tool in self.tool if tool.sha256 is None]:
            problem = f"{open_tools[0]} needs sha256, as others can change the server"
            raise ValueError(f'{problem}; with "?" the error has it')
        return self


@dataclass(frozen=True, slots=True)
class ListedTool:
    """What a server lists of one of its tools."""

    description: str | None
    input_schema: dict[str, Any]


class UnavailableError(Exception):
    """A server, or one of its tools, cannot be used now."""


def fingerprint(tool: ListedTool) -> str:
    """Return the sha256 of what a model sees of a tool: its description and its schema."""
    shown = {"description": tool.description, "parameters": tool.input_schema}
    text = json.dumps(shown, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def refusal_of(table: ToolTable, tool: ListedTool) -> str | None:
    """Return why a tool is refused that differs from what was reviewed, or None."""
    if table.sha256 is None or fingerprint(tool) == table.sha256:
        return None
    if table.sha256 == NOT_REVIEWED:
        review = f"has the tool {table.tool!r}, which is not reviewed yet; review it"
        return f"{review}, then set sha256 = {fingerprint(tool)!r}"
    return (
        f"has changed the description or parameters of {table.tool!r} since it was reviewed; "
        f"review it, then set sha256 = {fingerprint(tool)!r}"
    )


def check_address(url: str) -> None:
    """Raise ValueError if a token, or what a tool is asked, could be read on the way."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise ValueError(f"{url!r} must begin with https://, or be on this computer")

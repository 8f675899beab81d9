"""The model and the tools of the programs in examples/own, at a service that counts the calls."""

from __future__ import annotations

import os
from typing import Any

import httpx2 as httpx


def ask(key: str, **request: Any) -> Any:
    """Ask the service."""
    answer = httpx.post(os.environ["WORLD_URL"], json={"key": key, **request}, timeout=120)
    return answer.raise_for_status().json()


def ask_model(text: str) -> tuple[str, int]:
    return str(ask(text)), len(text.split())


def ask_for_tool(goal: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    reply: dict[str, Any] = ask("model", goal=goal, messages=messages)
    return reply


def delete_files(place: str) -> str:
    return str(ask(f"delete {place}"))


TOOLS = {"delete_files": delete_files}

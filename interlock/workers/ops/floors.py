"""Draws the floors of the project from the import contracts in its pyproject.toml."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

CONTRACTS = ("worker floors", "kernel floors")


def floors(pyproject: Path) -> str:
    """Return a Mermaid diagram: one box for each floor, the highest first. Raises KeyError."""
    settings = tomllib.loads(pyproject.read_text("utf-8"))
    contracts = {
        contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]
    }
    lines = ["```mermaid", "flowchart TB"]
    boxes: list[str] = []
    for name in CONTRACTS:
        drawn, ids = _boxes(contracts[name], len(boxes))
        lines += drawn
        boxes += ids
    lines += [f"    {above} --> {below}" for above, below in pairwise(boxes)]
    return "\n".join([*lines, "```"])


def _boxes(contract: dict[str, Any], first: int) -> tuple[list[str], list[str]]:
    folder = contract["containers"][0].rpartition(".")[2]
    ids = [f"floor{first + index}" for index, _ in enumerate(contract["layers"])]
    inside = [
        f'        {box}["{" · ".join(part.strip() for part in layer.split("|"))}"]'
        for box, layer in zip(ids, contract["layers"], strict=True)
    ]
    return [f"    subgraph {folder}", *inside, "    end"], ids

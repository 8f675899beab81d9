"""Draws the project in bands, from the import contracts in its pyproject.toml.

A contract has its modules in floors: a module imports only from floors below its own. A band is
several floors that lie together and serve one purpose.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from interlock.systems import NAMES

SYSTEMS = "Systems"  # the band of the folders of `interlock/systems`
# From the top: what a band is called, and its modules of `interlock/workers`.
OF_WORKERS = {
    "Doors": "alone main intake flower cli console api mcp access ops producer_message systems",
    SYSTEMS: "",
    "Agents' processes and the terminal": "supervision terminal remote",
    "Engine": "client engine",
    "Outside and files": "gateways processes specs up_file redaction files config layout text"
    " inherited setting_values",
}
KERNEL = "Kernel"  # the band of all modules of `interlock/kernel`


def bands(pyproject: Path) -> str:
    """Return a table with a row for each band, the highest first.

    Raises ValueError where the contract of the workers has a module in no band, or one in a band
    that lies above or below its floor; KeyError where a contract is missing.
    """
    settings = tomllib.loads(pyproject.read_text("utf-8"))
    contracts = {
        contract["name"]: [
            part.strip() for layer in contract["layers"] for part in layer.split("|")
        ]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    }
    band_of = {module: band for band, modules in OF_WORKERS.items() for module in modules.split()}
    members: dict[str, list[str]] = {band: [] for band in OF_WORKERS}
    lowest = 0
    for module in contracts["worker floors"]:
        if module not in band_of:
            raise ValueError(f"{module} is in no band: name it in scripts/bands.py")
        at = [*OF_WORKERS].index(band_of[module])
        if at < lowest:
            raise ValueError(f"{module} lies below the band {band_of[module]!r}: name another one")
        lowest = at
        members[band_of[module]].append(module)
    members[SYSTEMS] = [*NAMES]
    members[KERNEL] = [f"the {len(contracts['kernel floors'])} of `interlock/kernel`"]
    rows = (f"| {band} | {', '.join(modules)} |" for band, modules in members.items())
    return "\n".join(("| band | modules |", "|---|---|", *rows))

"""Tells the addresses that only this machine can reach. Imports nothing, for the command line."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host, by name or by address, is this machine and no other can reach it."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"

"""Tells the addresses that only this computer can reach. Imports nothing, for the command line."""

from __future__ import annotations

from ipaddress import ip_address


def host_name(header: str) -> str:
    """Return the host in a header `Host`, without its port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Return whether a host, by name or by address, is this computer and no other can reach it."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"

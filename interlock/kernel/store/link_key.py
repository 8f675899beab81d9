"""The key that signs links for people. All processes of a deployment have the same one."""

from __future__ import annotations

import secrets

from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client, call

KEY_BYTES = 32


def link_key(client: Client, keys: Keys) -> bytes:
    """Return the key; the first call makes it. If it is deleted, all links are void."""
    new = secrets.token_hex(KEY_BYTES)
    (kept,) = call(client, "keep_link_key", [keys.link_key()], [new])
    return bytes.fromhex(kept.decode())

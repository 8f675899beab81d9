"""Opens the store of an `interlock up` that has ended, for one command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.workers.config import Settings, SetupError
from interlock.workers.files.private import NotPrivateError
from interlock.workers.gateways.server import EmbeddedServer, private_socket
from interlock.workers.ops.home import lock_home, own_folder
from interlock.workers.up_file import local_settings, settings_here


@contextmanager
def store_opened() -> Iterator[Settings]:
    """Give the settings, with the store that they name or that of `interlock up` here.

    Where `up` has ended, its store runs until the end of the block, in which no `up` starts. Raises
    SettingsError if there is no store, SetupError or ServerError if it cannot be started.
    """
    settings = settings_here()
    home = settings.home.absolute()
    folder = home / "store"
    if settings.store_url is not None or not folder.exists():
        yield local_settings()
        return
    own_folder(home)
    try:
        server = EmbeddedServer(folder, socket=private_socket(folder))
    except NotPrivateError as refusal:
        raise SetupError(str(refusal)) from refusal
    lock = lock_home(home)
    try:
        with server:
            yield settings.model_copy(update={"store_url": server.url})
    finally:
        os.close(lock)

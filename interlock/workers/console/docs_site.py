"""The site of the documents, which `make docs` puts into this package: where it is, and a server.

It needs no other package, so that `interlock docs` runs where the console is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).parents[2] / "site"
NOT_BUILT = (
    "This installation has no documentation. `make docs` builds it in a checkout; a package that is"
    " made from the checkout after that has it."
)


class SiteHandler(SimpleHTTPRequestHandler):
    """Answers with the files of the site, and prints no line for each of them."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by its parent
        """Print nothing."""


def is_built() -> bool:
    """Return whether this installation has the site."""
    return (SITE / "index.html").is_file()


def serve_site(port: int, started: Callable[[str], None]) -> None:
    """Serve the site to this computer until Ctrl-C. `started` is called with its address."""
    handler = partial(SiteHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        started(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()

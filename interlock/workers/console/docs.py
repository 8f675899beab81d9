"""The site of the documents at /docs: static files that anybody may read, as those in /static."""

from __future__ import annotations

from http import HTTPStatus
from os import PathLike
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from interlock.workers.console.docs_site import NOT_BUILT, SITE, is_built
from interlock.workers.console.render import HEADERS, page

# The search of the site brings its own style, which is this one as long as Zensical is the same.
SEARCH_STYLE = "'sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k='"
POLICY = "Content-Security-Policy"
SAFE = {name: value for name, value in HEADERS.items() if name != "Cache-Control"}
SAFE[POLICY] = SAFE[POLICY].replace("style-src 'self'", f"style-src 'self' {SEARCH_STYLE}")


class Docs(StaticFiles):
    """The files of the site, with the rules that browsers get for pages of the console."""

    def __init__(self) -> None:
        super().__init__(directory=SITE, html=True, check_dir=False)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or a page that says that there is none."""
        if not is_built():
            return _refused(scope, "No documentation here", NOT_BUILT)
        try:
            return await super().get_response(path, scope)
        except HTTPException as refusal:
            if refusal.status_code != HTTPStatus.NOT_FOUND:
                raise
            return _refused(scope, "No such page", "The documentation has no such page.")

    def file_response(self, full_path: str | PathLike[str], *args: Any, **more: Any) -> Response:
        """Return a file with the headers of a page."""
        response = super().file_response(full_path, *args, **more)
        response.headers.update(SAFE)
        return response


def _refused(scope: Scope, title: str, sentence: str) -> Response:
    return page(Request(scope), "refused.html", 404, title=title, sentence=sentence)

"""Follows the links of the console from page to page, as an auditor may click them all."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

from fastapi.testclient import TestClient

OTHERS = ("/docs", "/static", "/logout", "http")  # what leads to no page of records


def broken_links(browser: TestClient, *addresses: str) -> dict[str, int]:
    """Return what is not answered with a page, with its status, of all that these pages lead to."""
    left, seen, broken = [*addresses], set(addresses), {}
    while left:
        address = left.pop()
        answer = browser.get(address, follow_redirects=True)
        if answer.status_code != 200:
            broken[address] = answer.status_code
        for link in re.findall(r'href="([^"#]+)"', answer.text):
            path = urljoin(address, unescape(link))
            if path not in seen and not path.startswith(OTHERS):
                seen.add(path)
                left.append(path)
    return broken

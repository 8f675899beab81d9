"""The programs on the pages about machines and systems of one's own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGES = "".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("own_machines.md", "own_systems.md")
)
BILLING, PRODUCER, _SYSTEM, BILLING_PAGE = re.findall(
    r"^```python\n(.*?)^```$", PAGES, re.MULTILINE | re.DOTALL
)
DOCUMENTS = (ROOT / "examples" / "own" / "documents.py").read_text("utf-8")
READY_S = 180.0

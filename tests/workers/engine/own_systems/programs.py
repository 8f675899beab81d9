"""The programs on the page about machines of one's own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "own_machines.md").read_text("utf-8")
BILLING, PRODUCER, BILLING_PAGE = re.findall(
    r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
DOCUMENTS = (ROOT / "examples" / "own" / "documents.py").read_text("utf-8")
READY_S = 180.0

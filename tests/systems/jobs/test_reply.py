"""A reply that is nearly right is a reply or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from interlock.systems.jobs.reply import ReplyError, ReviewReply, read_reply
from tests.damage import chances, damaged, torn

WHOLE: dict[str, Any] = {
    "action": "RETRY",
    "summary": "not yet",
    "evidence_files": ["report/one.txt"],
    "status": "IN_PROGRESS",
    "cost": 0.25,
    "retry_after_s": 60,
    "rate_limited": True,
    "verdict": "APPROVED",
    "reasons": ["it is late"],
}


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_a_file_that_is_nearly_a_reply_is_one_or_refused(tmp_path: Path, chance: Random) -> None:
    file = tmp_path / "reply.json"
    text = json.dumps(damaged(WHOLE, chance)).encode()
    for content in (text, torn(text, chance)):
        file.write_bytes(content)
        with suppress(ReplyError):
            read_reply(ReviewReply, file)

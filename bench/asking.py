"""The same model calls in a bare event loop, without Interlock: `python -m bench.asking URL`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from functools import partial

from interlock.systems.threads.inference.model import InferenceModel, model_of
from interlock.systems.threads.inference.question import Question, Target
from interlock.systems.threads.tier import Tier
from interlock.workers.config import Settings
from interlock.workers.gateways.llm.language_model import open_model
from interlock.workers.gateways.llm.outcome import Answered

MODEL = "openai:gpt-4o-mini"
CALLS = 200
CALL_S = 1.0
PATIENCE_S = 60.0
QUESTION = Question(
    target=Target.COMBINED,
    inciting={"source": "bench", "title": "note the meeting", "text": "", "fields": {}},
    items=(),
    feedback=(),
    intent=None,
    context=None,
    catalog=(),
    previous=None,
    turned_down=(),
    tier=Tier.FRONTIER_FAST,
)


def alone_s(url: str) -> float:
    """Return the seconds that the calls take in a process of their own, after one to warm up."""
    command = [sys.executable, "-m", "bench.asking", url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=2 * PATIENCE_S
    )
    return float(done.stdout)


async def _ask(model: InferenceModel, calls: int) -> float:
    started = time.monotonic()
    answers = (model.answer(QUESTION, timeout_s=PATIENCE_S) for _ in range(calls))
    outcomes = await asyncio.gather(*answers)
    if not all(isinstance(outcome, Answered) for outcome in outcomes):
        raise RuntimeError("some calls were not answered")
    return time.monotonic() - started


async def _measured(url: str) -> float:
    settings = Settings(model_base_url=url, model_api_key="no-secret")
    model = model_of(MODEL, {}, partial(open_model, settings))
    await _ask(model, 1)
    return await _ask(model, CALLS)


if __name__ == "__main__":
    print(asyncio.run(_measured(sys.argv[1])))

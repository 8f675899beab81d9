"""The scripted provider as a program: its script, its address, its ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from examples.provider import Counted, Provider, Step, read_script

PROGRAM = Path(__file__).parents[2] / "examples" / "provider.py"


def ask(url: str, words: str, model: str = "gpt-4o-mini") -> tuple[int, str | None, Any]:
    """Ask once; return the status, the wish to be left alone, and the document."""
    place = urlsplit(url)
    connection = HTTPConnection(place.netloc)
    try:
        body = {"model": model, "messages": [{"role": "user", "content": words}]}
        connection.request("POST", f"{place.path}/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.headers["Retry-After"], json.load(answer)
    finally:
        connection.close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    script = [
        Step(says="for later", when="later"),
        Step(status=503, retry_after="3", message="away"),
        Step(says="first", tokens=Counted(input=10, output=20, cache_read=30, cache_creation=40)),
    ]
    with Provider(script) as running:
        yield running


def test_a_step_waits_for_the_words_it_is_for_and_others_come_in_order(provider: Provider) -> None:
    refused, *others = [ask(provider.url, words) for words in ("go", "go", "now or later", "go on")]
    answers = [document for _, _, document in others]

    assert refused[:2] == (503, "3")
    assert refused[2]["error"]["message"] == "away"
    said = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert said == ["first", "for later", "You said: go on"]
    assert answers[0]["usage"]["prompt_tokens"] == 80
    assert answers[0]["usage"]["prompt_tokens_details"]["cached_tokens"] == 30
    # A refusal is not charged: 10 and 40 tokens at 0.15, 20 at 0.6, 30 at 0.075; 2 words, 3, 2, 4.
    assert [charge.picodollars for charge in provider.charges] == [
        50 * 150_000 + 20 * 600_000 + 30 * 75_000,
        3 * 150_000 + 2 * 600_000,
        2 * 150_000 + 4 * 600_000,
    ]
    assert provider.charged_micro == 27


def test_a_model_without_a_price_is_served_for_nothing(provider: Provider) -> None:
    ask(provider.url, "later", model="deployment-model")

    assert provider.charged_micro == 0


def test_a_script_with_a_word_that_no_step_has_is_refused() -> None:
    with pytest.raises(TypeError, match="sayz"):
        read_script([{"sayz": "x"}])


def test_the_program_prints_its_address_and_appends_what_it_charges(tmp_path: Path) -> None:
    script, ledger = tmp_path / "steps.json", tmp_path / "charges.jsonl"
    script.write_text(json.dumps([{"says": "yes", "tokens": {"input": 20, "output": 5}}]))
    command = [sys.executable, str(PROGRAM), "--script", str(script), "--ledger", str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ask(process.stdout.readline().strip(), "well?")
        process.terminate()

    assert json.loads(ledger.read_text("utf-8")) == {
        "model": "gpt-4o-mini",
        "tokens": {"input": 20, "output": 5, "cache_read": 0, "cache_creation": 0},
        "picodollars": 6_000_000,
    }

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from interlock.workers.config import SettingsError
from interlock.workers.gateways.llm.options import DEFAULT_MODEL
from interlock.workers.gateways.llm.outcome import Answered
from tests.fakes.openai_server import OpenAIServer, says
from tests.systems.threads.inference.questions import ACTION, ask, model_named, question

# An entry of None makes Python say that the module is not there.
ABSENT = "import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
OPEN = """
from tests.systems.threads.inference.questions import model_named
from interlock.workers.config import SettingsError
try:
    print(model_named({spec!r}, api_key="k").name)
except SettingsError as error:
    print("refused:", error)
"""


def opened_without(absent: list[str], spec: str) -> str:
    program = ABSENT.format(absent=absent) + OPEN.format(spec=spec)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("gpt-4o", "provider:model"),
        ("opnai:gpt-4o", "Unknown model"),
        ("openai:", "cannot be opened"),
        ("", "cannot be opened"),
        ("test", "cannot be opened"),
        ("embedded:bert", "embedded:wordllama"),
        ("embedded:", "embedded:wordllama"),
    ],
)
def test_a_wrong_name_is_refused_with_what_to_set(
    spec: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    with pytest.raises(SettingsError, match=problem):
        model_named(spec)


def test_a_wrong_name_is_refused_with_a_key_too() -> None:
    with pytest.raises(SettingsError, match="INTERLOCK_MODEL=opnai:gpt-4o cannot be opened"):
        model_named("opnai:gpt-4o", api_key="k")


def test_a_wrong_name_of_a_tier_is_refused() -> None:
    with pytest.raises(SettingsError, match="opnai"):
        model_named(DEFAULT_MODEL, tier_models={question().tier: "opnai:gpt-4o"})


def test_a_missing_key_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        model_named("openai:gpt-4o")


@pytest.mark.parametrize("address", ["localhost:8000", "", "ftp://models.example"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="http"):
        model_named("openai:gpt-4o", base_url=address)


@pytest.mark.parametrize(
    ("spec", "module", "extra"),
    [
        ("anthropic:claude-sonnet-4-5", "anthropic", "anthropic"),
        ("groq:llama-3.3-70b-versatile", "groq", "groq"),
        ("bedrock:amazon.nova-lite-v1:0", "boto3", "bedrock"),
        ("huggingface:Qwen/Qwen3-32B", "huggingface_hub", "huggingface"),
    ],
)
def test_a_missing_package_of_a_provider_is_refused_with_the_command_that_installs_it(
    spec: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    package = f"pydantic-ai-slim[{extra}]=={version('pydantic-ai-slim')}"

    with pytest.raises(SettingsError) as refusal:
        model_named(spec, api_key="k")

    assert str(refusal.value) == (
        f"INTERLOCK_MODEL={spec} needs a package that is not installed: "
        f"{sys.executable} -m pip install '{package}'"
    )


@pytest.mark.proof
@pytest.mark.parametrize("absent", ["dateparser", "numpy", "wordllama"])
def test_a_missing_extra_is_named_and_the_rest_works_without_it(absent: str) -> None:
    problem = opened_without([absent], "embedded:wordllama")

    assert problem.startswith(f"refused: the embedded model needs {absent}, which is not installed")
    assert "install interlock[embedded]" in problem
    assert opened_without([absent], "openai:gpt-4o") == "openai:gpt-4o"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("openai:gpt-4o-mini", "gpt-4o-mini"),
        ("openai-chat:gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("llama3.2:3b", "llama3.2:3b"),
        ("ollama:qwen3", "qwen3"),
    ],
)
def test_an_address_serves_any_name(spec: str, name: str) -> None:
    with OpenAIServer(otherwise=says(ACTION)) as server:
        model = model_named(spec, base_url=server.url)
        outcome = ask(model, question())

    assert isinstance(outcome, Answered), outcome
    assert outcome.model == model.name == spec
    assert [request.model for request in server.asked] == [name]


def test_only_the_given_key_goes_to_a_given_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-for-openai")
    with OpenAIServer(otherwise=says(ACTION)) as server:
        for key in (None, "ours"):
            for spec in ("openai:gpt-4o-mini", "my-own"):
                ask(model_named(spec, base_url=server.url, api_key=key), question())

    sent = [request.headers["authorization"] for request in server.asked]
    assert sent == ["Bearer no-key", "Bearer no-key", "Bearer ours", "Bearer ours"]


def test_the_default_needs_neither_network_nor_key() -> None:
    offline = """
import socket
def refuse(*_):
    raise AssertionError("the network was used")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from tests.systems.threads.inference.questions import ask, question
from interlock.workers.gateways.llm.options import DEFAULT_MODEL
from tests.systems.threads.inference.questions import model_named
import asyncio
async def once():
    return await model_named(DEFAULT_MODEL).answer(question(), timeout_s=60)
import logging
print(type(asyncio.run(once())).__name__, logging.getLogger().handlers)
"""
    command = [sys.executable, "-c", offline]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)

    # The library's own logging setup is kept out as well.
    assert (done.stdout.strip(), done.stderr) == ("Answered []", "")

"""A provider without a model: it answers by a script, and keeps a ledger of its charges.

    python examples/provider.py --script STEPS.json --ledger CHARGES.jsonl

It uses the OpenAI chat protocol on a free port of this computer, prints its address as the first
line, and serves until it is ended. The script is a list of steps. A request takes the first
remaining step that has no `when`, or whose `when` is part of the request's last message. If there
is none, the answer repeats that message, with one token for each word. A step may be:

    {"says": "text", "tokens": {"input": 200, "cache_read": 80, "cache_creation": 0, "output": 50}}
    {"status": 429, "retry_after": "2", "message": "slow down"}
    {"says": "text", "delay_s": 0.5}
    {"says": "text", "cuts": true}       the connection breaks in the middle of a charged answer
    {"hangs": true}                      no answer comes

The ledger has a line for each request that was charged. Prices are in micro-dollars for a million
tokens; charges are counted in picodollars, so that nothing is rounded.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

BODY_BYTES_MAX = 8 * 1024 * 1024
CONTEXT_TOO_LONG = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in "
    "130000 tokens. Please reduce the length of the messages."
)


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of a million tokens of each kind, in micro-dollars."""

    input: int
    output: int
    cache_read: int
    cache_creation: int


PRICES = {
    "gpt-4o-mini": Price(input=150_000, output=600_000, cache_read=75_000, cache_creation=150_000),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """The tokens of one request. No token is of two kinds."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_creation: int = 0

    def picodollars(self, price: Price) -> int:
        """Return their price."""
        kinds = asdict(self)
        return sum(number * getattr(price, kind) for kind, number in kinds.items())


@dataclass(frozen=True, slots=True)
class Charge:
    """A request that was charged."""

    model: str
    tokens: Counted
    picodollars: int


@dataclass(frozen=True, slots=True)
class Step:
    """One answer, with the faults that the server adds to it."""

    says: str = ""
    tokens: Counted | None = None
    when: str = ""
    status: int = 200
    message: str = "scripted"
    retry_after: str | None = None
    delay_s: float = 0.0
    cuts: bool = False
    hangs: bool = False


def read_script(document: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Return the steps of a script. Raises TypeError for an unknown field."""
    return [
        Step(**{**given, "tokens": Counted(**given["tokens"]) if "tokens" in given else None})
        for given in document
    ]


class Provider:
    """The server: `with Provider([Step(says="yes")]) as provider: provider.url`."""

    def __init__(self, script: Sequence[Step] = (), *, ledger: Path | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.charges: list[Charge] = []
        self.was_asked = threading.Event()
        self._script = list(script)
        self._ledger = ledger
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def charged_micro(self) -> int:
        """Return all charges in micro-dollars, rounded up once."""
        return -(-sum(charge.picodollars for charge in self.charges) // 1_000_000)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, body: dict[str, Any]) -> Step:
        """Note a request, and return the step that answers it."""
        message = str(body["messages"][-1].get("content"))
        with self._lock:
            self.asked.append(body)
            self.was_asked.set()
            for step in self._script:
                if step.when in message:
                    self._script.remove(step)
                    return step
        return Step(says=f"You said: {message}")

    def charge(self, body: Mapping[str, Any], step: Step) -> Counted:
        """Book the cost of an answer, and return its tokens."""
        texts = [str(message.get("content")) for message in body["messages"]]
        words = sum(len(text.split()) for text in texts)
        tokens = step.tokens or Counted(input=words, output=len(step.says.split()))
        model = str(body["model"])
        price = PRICES.get(model)
        charge = Charge(model, tokens, tokens.picodollars(price) if price else 0)
        with self._lock:
            self.charges.append(charge)
            if self._ledger is not None:
                with self._ledger.open("a", encoding="utf-8") as ledger:
                    ledger.write(json.dumps(asdict(charge)) + "\n")
        return tokens

    def wait(self, seconds: float | None) -> None:
        """Wait, at most until this provider is closed."""
        self._closing.wait(seconds)


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One connection."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer a request by its step."""
            size = min(int(self.headers.get("Content-Length", "0")), BODY_BYTES_MAX)
            body = json.loads(self.rfile.read(size))
            if self.path != "/v1/chat/completions":
                self._refuse(Step(status=404, message=f"there is no {self.path}"))
                return
            step = provider.take(body)
            if step.hangs:
                provider.wait(None)
                self.close_connection = True
            elif step.status != 200:  # noqa: PLR2004 - the only status that is not a refusal
                self._refuse(step)
            else:
                provider.wait(step.delay_s)
                answer = _completion(body, step, provider.charge(body, step))
                self._send(200, answer, {}, cuts=step.cuts)

        def log_message(self, *_: object) -> None:
            """Write no log: the ledger has the charges."""

        def _refuse(self, step: Step) -> None:
            error = {"message": step.message, "type": "scripted", "code": None}
            headers = {} if step.retry_after is None else {"Retry-After": step.retry_after}
            self._send(step.status, {"error": error}, headers, cuts=False)

        def _send(
            self, status: int, document: object, headers: Mapping[str, str], *, cuts: bool
        ) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            common = {"Content-Type": "application/json", "Content-Length": str(len(content))}
            for name, value in {**common, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cuts else content)
            self.close_connection = self.close_connection or cuts

    return Handler


def _completion(body: Mapping[str, Any], step: Step, tokens: Counted) -> dict[str, Any]:
    prompt = tokens.input + tokens.cache_read + tokens.cache_creation
    cached = {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_creation}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": step.says},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": tokens.output,
            "total_tokens": prompt + tokens.output,
            "prompt_tokens_details": cached,
        },
    }


def main() -> None:
    """Serve until this process is ended."""
    options = argparse.ArgumentParser(description="A provider that answers by a script.")
    options.add_argument("--script", type=Path, help="a JSON file with a list of steps")
    options.add_argument("--ledger", type=Path, help="the file to which charges are appended")
    given = options.parse_args()
    steps = read_script(json.loads(given.script.read_text("utf-8"))) if given.script else []
    with Provider(steps, ledger=given.ledger) as provider:
        print(provider.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

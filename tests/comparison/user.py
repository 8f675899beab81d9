"""A user's program: it makes the calls that are on its input, and prints what each was told."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from interlock import Client, KernelError


def submit(client: Client, module: str, flow: str, data: str, fields: Any, record: str) -> None:
    program = importlib.import_module(module)
    client.submit(getattr(program, flow), getattr(program, data)(**fields), id=record)


def fire(client: Client, record: str, trigger: str, payload: Any) -> None:
    client.fire(record, trigger, payload)


def decide(client: Client, record: str, choice: str, fields: Any, proposal: str) -> None:
    client.decide(record, choice, fields, proposal=proposal)


VERBS: Mapping[str, Callable[..., None]] = {"submit": submit, "fire": fire, "decide": decide}


def main() -> None:
    """Make each call; what is refused is told, and the next is made all the same."""
    client, told = Client(actor=sys.argv[1]), []
    for verb, *words in json.load(sys.stdin):
        try:
            VERBS[verb](client, *words)
            told.append("")
        except KernelError as refusal:
            told.append(str(refusal))
    print(json.dumps(told))


if __name__ == "__main__":
    main()

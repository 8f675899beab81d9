"""No secret of a worker can be read in the output of its agents."""

from __future__ import annotations

import pytest

from interlock.workers.config import Settings
from interlock.workers.engine.work_secrets import secrets_of
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.redaction import Redaction
from tests.systems.threads.threads import client_of


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"the key is sesame-open!\n", b"the key is ************\n"),
        (b"sesame-open!sesame-open!", b"*" * 24),
        (b"open!open!open!", b"*" * 15),
        (b"it begins: sesame-o", b"it begins: ********"),
        (b"a sesame seed, a seal", b"a sesame seed, a seal"),
        (b"short", b"short"),
    ],
)
def test_each_byte_of_a_secret_is_hidden_and_that_of_one_that_is_being_printed(
    printed: bytes, shown: bytes
) -> None:
    assert Redaction(["sesame-open!", "open!open!", "short"]).hidden(printed) == shown


def test_the_secrets_are_those_of_the_settings_of_the_environment_and_of_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "key-of-the-shop")
    monkeypatch.setenv("DATABASE", "postgres://ann:p%40ssword@db/shop")
    monkeypatch.setenv("EDITOR", "an-editor")
    store = "redis+sentinel://worker:of-the-store@a:1/0/s?sentinel_password=of-the-sentinel"
    settings = Settings(store_url=store, model_api_key="key-of-the-model")

    found = secrets_of(settings)

    assert {
        "key-of-the-shop",
        "p%40ssword",
        "p@ssword",
        "of-the-store",
        "of-the-sentinel",
        "key-of-the-model",
    } <= found
    assert not {"an-editor", store} & found


def test_the_end_of_an_output_is_valid_and_shows_no_part_of_a_secret_at_its_cut() -> None:
    redaction = Redaction(["sesame-open!"])
    output = b"x" * 50 + b"sesame-open!\xc3\xa4\xc3\xa4\0"

    assert redaction.end_of(output, 100).endswith("************ää\N{REPLACEMENT CHARACTER}")
    assert redaction.end_of(output, 10) == "*****ää\N{REPLACEMENT CHARACTER}"
    assert redaction.end_of(output, 4) == "ä\N{REPLACEMENT CHARACTER}", "no half of a letter"
    assert redaction.text("open: sesame-open! ä") == "open: ************ ä"


def test_records_hide_the_secrets_of_their_process(
    server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "key-of-the-shop")
    records = client_of(server.url, prefix).records

    assert records.redaction.text("it is key-of-the-shop, sorry")[-13:] == "******, sorry"

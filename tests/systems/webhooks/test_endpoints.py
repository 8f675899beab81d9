"""The file of endpoints is checked at the start, and no error repeats a secret or an address."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from interlock.systems.webhooks.endpoints import Endpoint, open_endpoints
from interlock.workers.config import Settings, SettingsError
from interlock.workers.specs.problems import FileError
from tests.damage import chances, damaged, torn
from tests.known_systems import settings_with

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CHAT = f"{{name: chat, url: 'https://hook.example/T0/private', secrets: [{SECRET}]}}"


def endpoints(folder: Path, *rows: str) -> tuple[Endpoint, ...]:
    file = folder / "webhooks.yaml"
    file.write_text(f"endpoints: [{', '.join(rows)}]")
    return open_endpoints(settings_with(webhooks=file))


def test_without_the_setting_there_is_no_endpoint() -> None:
    assert open_endpoints(Settings()) == ()


def test_an_endpoint_is_told_of_everything_unless_its_row_says_less(tmp_path: Path) -> None:
    jobs = f"{CHAT[:-1].replace('chat', 'jobs')}, kinds: [ends], machines: [job]}}"

    chat, narrow = endpoints(tmp_path, CHAT, jobs)

    assert chat.wants("cards", "thread")
    assert chat.wants("ends", "task")
    assert [narrow.wants(*of) for of in (("ends", "job"), ("ends", "task"), ("cards", "job"))] == [
        True,
        False,
        False,
    ]
    assert len(chat.keys[0]) == 24


def test_no_secret_and_no_address_is_shown(tmp_path: Path) -> None:
    (chat,) = endpoints(tmp_path, CHAT)

    assert "hook.example" not in f"{chat!r} {chat}"
    assert SECRET not in f"{chat!r} {chat}"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            CHAT.replace(SECRET, "whsec_c2hvcnQ="),
            r"endpoints .entry 1.\.secrets: a secret is",
        ),
        (CHAT.replace(SECRET, SECRET[6:]), r"secrets: a secret is whsec_ and the base64 of 24"),
        (CHAT.replace(f"[{SECRET}]", "[]"), "secrets: these are 0, at least 1 must be there"),
        (
            CHAT.replace(f"[{SECRET}]", f"[{SECRET}, {SECRET}, {SECRET}]"),
            "these are 3, at most 2",
        ),
        (CHAT.replace(f"[{SECRET}]", SECRET), "secrets: write a list"),
        (CHAT.replace("https://", "ftp://"), r"endpoints \(entry 1\)\.url: write an address"),
        (CHAT.replace("https://", "https://me:private@"), "url: leave out the user"),
        (f"{CHAT[:-1]}, machines: [jobs]}}", "no machine is called jobs"),
        (
            f"{CHAT[:-1]}, kind: [ends]}}",
            "'kind' is not a field here; did you mean 'kinds'",
        ),
        (f"{CHAT}, {CHAT}", "endpoints: two are called chat"),
    ],
)
def test_a_wrong_file_is_refused_in_words_without_a_secret(
    tmp_path: Path, wrong: str, problem: str
) -> None:
    with pytest.raises(FileError, match=problem) as refusal:
        endpoints(tmp_path, wrong)

    assert "private" not in str(refusal.value)
    assert SECRET[6:] not in str(refusal.value)


def test_links_need_an_address(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="INTERLOCK_PUBLIC_URL must say"):
        endpoints(tmp_path, f"{CHAT[:-1]}, answers_as: ann}}")


ROW: dict[str, Any] = {
    "name": "chat",
    "url": "https://hook.example/T0",
    "secrets": [SECRET],
    "kinds": ["ends"],
    "machines": ["job"],
    "answers_as": "ann",
}


@pytest.mark.fuzz
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chance=chances)
def test_a_file_that_is_nearly_right_is_read_or_refused(tmp_path: Path, chance: Random) -> None:
    text = json.dumps({"endpoints": [damaged(ROW, chance)]}).encode()
    # A new file each time, because a file is read once.
    file = tmp_path / f"{chance.random()}.yaml"
    file.write_bytes(torn(text, chance) if chance.randrange(3) == 0 else text)
    found: tuple[Endpoint, ...] = ()
    with suppress(FileError):
        found = open_endpoints(settings_with(webhooks=file, public_url="https://interlock.example"))
    assert all(len(key) >= 24 for endpoint in found for key in endpoint.keys)

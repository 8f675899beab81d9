"""docs/api.md is right about problems and addresses, and its commands run as they are printed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.workers.api import problems
from interlock.workers.api.app import create_app
from interlock.workers.config import API_PORT
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.remote import problems as remote_problems
from interlock.workers.remote.problems import KINDS, ProblemKind
from interlock.workers.up_file import new_token
from tests.systems.threads.threads import client_of
from tests.workers.api.serving import served

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text("utf-8")
VERBS = ("pause", "resume", "retry")


def test_the_page_lists_every_problem_with_its_status() -> None:
    values = [*vars(problems).values(), *vars(remote_problems).values()]
    named = [kind for kind in values if isinstance(kind, ProblemKind)]
    kinds = {*KINDS.values(), *problems.OF_HTTP.values(), *named}
    rows = re.findall(r"^\| (\d{3}) \| (.+) \|", PAGE, re.MULTILINE)
    listed = {(name, status) for status, names in rows for name in re.findall(r"`(.+?)`", names)}

    assert {(kind.name, str(kind.status)) for kind in kinds} == listed


def test_the_page_lists_every_address(server: EmbeddedServer, prefix: str) -> None:
    paths = create_app(client_of(server.url, prefix)).openapi()["paths"]
    ids = dict.fromkeys(("{record_id}", "{token_id}", "{message_id}"), "ID")
    names = {**ids, "{name}": "NAME", "{kind}": "KIND"}
    served = set()
    for path, methods in paths.items():
        shown = path
        for name, word in names.items():
            shown = shown.replace(name, word)
        served |= {f"{method.upper()} {shown}" for method in methods}
    listed = set(re.findall(r"`((?:GET|POST) /[^`]+)`", PAGE))
    listed -= {f"POST /v1/records/ID:{verb}" for verb in VERBS}

    assert listed == served - {"POST /v1/records/ID:{verb}"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_page_work_as_they_are_printed(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    home = tmp_path / ".interlock"
    new_token(home)
    printed = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    with served(client_of(server.url, prefix, home=home, auth="owner")) as url:
        script = printed.replace(str(API_PORT), url.rpartition(":")[2])
        done = subprocess.run(
            ["/bin/sh", "-e", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )

    assert '{"id":"call-1","replayed":false}' in done.stdout
    assert '"title":"Call the dentist"' in done.stdout
    assert '"because":"' in done.stdout
    assert done.stdout.count('"state":"dismissed"') == 1

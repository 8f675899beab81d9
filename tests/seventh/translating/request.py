"""Reads the file in which a person asks for a translation."""

from pathlib import Path
from typing import Any

from interlock.git.branch import head_commit
from interlock.git.errors import GitError
from interlock.git.repository import Repository
from interlock.system import files
from interlock.system.agents import Sandbox, check_command
from interlock.system.records import Records
from translating.table import Request

FILE = files.file_model(
    Request,
    {
        "title": files.Field("title", required="say what is translated"),
        "source": files.Field("source", required="name a file of the repository: guide.md"),
        "language": files.Field("language", required="name the language, such as de"),
        "glossary": files.Field("glossary", required="list terms, each with its translation"),
        "budget": files.Field("budget_micro", files.MONEY),
        "answer within": files.Field("answer_within_s", files.DURATION),
    },
)


def read_request(path: Path, agent: str, records: Records) -> dict[str, Any]:
    """Return the payload that a file asks for. Raises FileError, GitError, CallError."""
    document = files.read_document(path, bytes_max=100_000, advice="shorten the glossary")
    location = files.Location(document.problems)
    fields = files.read_fields(FILE, document.root, location) or {}
    document.problems.raise_if_any()
    repository = Repository.open(path.absolute().parent, sandbox=Sandbox.open(records.settings))
    try:
        source = repository.root / repository.inside(fields["source"])
        problem = "" if source.is_file() else f"{repository.root} has no such file"
    except GitError as error:
        problem = str(error)
    if problem:
        location.inside("source").refuse(document.root.at("source"), problem)
    document.problems.raise_if_any()
    check_command(agent, repository.root)
    place = {"repository": str(repository.root), "base": head_commit(repository)}
    return {**fields, **place, "host": records.settings.host, "agent": agent}

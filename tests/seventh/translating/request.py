"""Reads the file in which a person asks for a translation."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from interlock.git.branch import head_commit
from interlock.git.errors import GitError
from interlock.git.repository import Repository
from interlock.system import files
from interlock.system.agents import Sandbox, check_command
from interlock.system.records import Records
from translating.settings import TranslationSettings
from translating.table import Term


class Asked(BaseModel):
    """The file: each name in it is that of a field of the request, or its alias."""

    model_config = ConfigDict(extra="forbid", strict=True)
    title: Annotated[str, files.Required("say what is translated")]
    source: Annotated[str, files.Required("name a file of the repository: guide.md")]
    language: Annotated[str, files.Required("name the language, such as de")]
    glossary: Annotated[list[Term], files.Required("list terms, each with its translation")]
    budget_micro: Annotated[int, files.MONEY] = Field(0, alias="budget")
    answer_within_s: Annotated[int, files.DURATION] = Field(0, alias="answer within")


def read_request(path: Path, agent: str, records: Records) -> dict[str, Any]:
    """Return the payload that a file asks for. Raises FileError, GitError, CallError."""
    document = files.Document.read(path, bytes_max=100_000, advice="shorten the glossary")
    asked = document.model(Asked)
    repository = Repository.open(path.absolute().parent, sandbox=Sandbox.open(records.settings))
    try:
        source = repository.root / repository.inside(asked.source)
        problem = "" if source.is_file() else f"{repository.root} has no such file"
    except GitError as error:
        problem = str(error)
    known = records.settings.of(TranslationSettings).translation_languages
    with document as file:
        if problem:
            file.at("source").refuse(problem)
        if known and asked.language not in known:
            file.at("language").refuse(f"it is translated to {', '.join(known)} alone")
    check_command(agent, repository.root)
    place = {"repository": str(repository.root), "base": head_commit(repository)}
    fields = asked.model_dump(exclude_unset=True)
    return {**fields, **place, "host": records.settings.host, "agent": agent}

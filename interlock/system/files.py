"""Reads the files that people write, and keeps those that are private.

A file, in YAML or JSON, is read into a model of pydantic. What is wrong is a `FileError`, which has
each problem with its line and column:

    class RequestFile(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)
        title: Annotated[str, Required("say what is translated")]
        budget_micro: Annotated[int, MONEY] = Field(0, alias="budget")  # 2.50 is 2,500,000

    document = Document.read(path, bytes_max=100_000, advice="split it")
    request = document.model(RequestFile)

What a model cannot know is checked after it, at the place where it is written:

    with document as file:  # raises FileError at its end
        if request.title in taken:
            file.at("title").refuse("there is one of this title; choose another")

A `ValueKind` marks a field of one type, and reads what people write as that:

    budget_micro: Annotated[int, MONEY]     # `2.50`: millionths of a dollar
    time_limit_s: Annotated[int, DURATION]  # `90s`, `2h` or `3d`: seconds
    priority: Annotated[int, PRIORITY]      # 0 (first) to 9 (last)
    name: Annotated[str, ID]                # a valid id of a record
    folder: Annotated[str, PATH]            # a path without `~`; a strict model reads no `Path`

One of your own reads other values.

A file of several items has each of them by its name, and refuses what waits for itself:

    with document as file:
        steps = file.at("steps").items("step", count_max=100, advice="split it")
        after = {name: step.at("after").names(FilePart.name) for name, step in steps}
        for (name, other), problem in Dependencies(after).refusals().items():  # of `tables`
            after[name][other].refuse(problem)
"""

from __future__ import annotations

from interlock.workers.files.folder import UntrustedFolder
from interlock.workers.files.private import PrivateFile
from interlock.workers.specs.document import Document
from interlock.workers.specs.models import Required
from interlock.workers.specs.part import FilePart
from interlock.workers.specs.problems import FileError
from interlock.workers.specs.values import DURATION, ID, MONEY, PATH, PRIORITY, ValueKind

__all__ = [
    "DURATION",
    "ID",
    "MONEY",
    "PATH",
    "PRIORITY",
    "Document",
    "FileError",
    "FilePart",
    "PrivateFile",
    "Required",
    "UntrustedFolder",
    "ValueKind",
]

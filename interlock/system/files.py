"""Reads the files that people write, and writes those that programs read again.

A file, in YAML or JSON, is read into a model of pydantic. What is wrong is a `FileError`, which has
each problem with its line and column:

    document = read_document(path, bytes_max=100_000, advice="split it")
    request = read_model(Request, document.root, Location(document.problems))
    document.problems.raise_if_any()

The model is written by hand, or `file_model` makes it of the model of a payload. Then `read_fields`
returns the fields of the payload:

    FILE = file_model(
        Request,
        {
            "title": Field("title", required="say what is translated"),
            "budget": Field("budget_micro", MONEY),  # `budget: 2.50` is 2,500,000
        },
    )
"""

from __future__ import annotations

from interlock.workers.files.folder import UntrustedFolder
from interlock.workers.files.private import PrivateFile
from interlock.workers.specs.document import SpecDocument, parse_document, read_document, read_text
from interlock.workers.specs.fields import (
    Field,
    PartialPayload,
    check_size,
    checked_payload,
    file_model,
    problem_of_id,
    read_dependencies,
    read_fields,
    read_name,
)
from interlock.workers.specs.json_line import COUNT_MAX, as_line, plain_text, shown
from interlock.workers.specs.models import Required, WrittenForm, model_of, read_model
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import FileError, ItemNames, Location, Problems
from interlock.workers.specs.values import (
    DURATION,
    MONEY,
    PATH,
    PRIORITY,
    ValueKind,
    filled_list,
    number_text,
)

__all__ = [
    "COUNT_MAX",
    "DURATION",
    "MONEY",
    "PATH",
    "PRIORITY",
    "Field",
    "FileError",
    "ItemNames",
    "Location",
    "Node",
    "PartialPayload",
    "PrivateFile",
    "Problems",
    "Required",
    "SpecDocument",
    "UntrustedFolder",
    "ValueKind",
    "WrittenForm",
    "as_line",
    "check_size",
    "checked_payload",
    "file_model",
    "filled_list",
    "model_of",
    "number_text",
    "parse_document",
    "plain_text",
    "problem_of_id",
    "read_dependencies",
    "read_document",
    "read_fields",
    "read_model",
    "read_name",
    "read_text",
    "shown",
]

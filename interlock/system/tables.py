"""What tables of machines are written with, beyond the names of `interlock`.

Modules of a table import nothing else of Interlock than `interlock` and this module, so that they
are read without a worker. docs/own_machines.md explains tables, states, triggers and payloads;
`python -m pydoc interlock.Waiting` (`Active`, `Terminal`, `Machine`) their fields, and
`python -m pydoc interlock.rows` those of a row.

- `LISTED`: the machines of this process whose records are in lists, by name
- `MICRO`: 1,000,000, the millionths of a dollar in which amounts of money are
- `PRIORITY_DEFAULT`: 5, of 0 (first) to 9 (last)
- `Word`: a type for the field of a model: a name without blanks, of at most 64 characters
"""

from __future__ import annotations

from interlock.kernel.amounts import MICRO, dollars
from interlock.kernel.choice_words import ChoiceWords
from interlock.kernel.dependencies import Dependencies
from interlock.kernel.machines import LISTED
from interlock.kernel.meaning import Meaning
from interlock.kernel.payload import Word, problem_of
from interlock.kernel.question import action_line, as_sentence
from interlock.kernel.reason import (
    AbortReason,
    TransitionReason,
)
from interlock.kernel.record import (
    PRIORITY_DEFAULT,
    Record,
    RecordContent,
    root_of,
)
from interlock.kernel.rows import carry
from interlock.kernel.scales import Ranked
from interlock.kernel.shortened import shortened
from interlock.kernel.table import Data as RecordData
from interlock.kernel.traits import Placement, Prerequisites
from interlock.kernel.trigger import Triggers

__all__ = [
    "LISTED",
    "MICRO",
    "PRIORITY_DEFAULT",
    "AbortReason",
    "ChoiceWords",
    "Dependencies",
    "Meaning",
    "Placement",
    "Prerequisites",
    "Ranked",
    "Record",
    "RecordContent",
    "RecordData",
    "TransitionReason",
    "Triggers",
    "Word",
    "action_line",
    "as_sentence",
    "carry",
    "dollars",
    "problem_of",
    "root_of",
    "shortened",
]

"""What tables of machines are written with, beyond the names of `interlock`.

Modules of a table import nothing else of Interlock than `interlock` and this module, so that they
are read without a worker. docs/own_machines.md explains tables, states, triggers and payloads.
Comments in interlock/kernel/table.py, which pydoc does not show, explain the fields of stages.
"""

from __future__ import annotations

from interlock.kernel.amounts import DELTA_MAX, MICRO, dollars
from interlock.kernel.choice_words import ChoiceWords, SuggestedAnswer, Words, fixed
from interlock.kernel.dependencies import Dependencies
from interlock.kernel.event import EFFECT_FAILED, START, words_of
from interlock.kernel.machines import LISTED
from interlock.kernel.meaning import Meaning
from interlock.kernel.payload import WORD_PATTERN, Word, parsed, path_of, problem_of
from interlock.kernel.question import action_line, as_sentence, failure_detail, failure_reason
from interlock.kernel.reason import (
    AbortReason,
    TransitionReason,
)
from interlock.kernel.record import (
    CHILDREN_MAX,
    PARTITIONS,
    PRIORITY_DEFAULT,
    Record,
    RecordContent,
    partition_of,
    record_id,
    root_of,
    split_key,
)
from interlock.kernel.scales import Ranked, Tier
from interlock.kernel.shortened import columns_of, shortened
from interlock.kernel.shown_stage import as_words
from interlock.kernel.table import Bounds, carry
from interlock.kernel.table import Data as RecordData
from interlock.kernel.traits import Placement, Prerequisites
from interlock.kernel.trigger import Triggers

__all__ = [
    "CHILDREN_MAX",
    "DELTA_MAX",
    "EFFECT_FAILED",
    "LISTED",
    "MICRO",
    "PARTITIONS",
    "PRIORITY_DEFAULT",
    "START",
    "WORD_PATTERN",
    "AbortReason",
    "Bounds",
    "ChoiceWords",
    "Dependencies",
    "Meaning",
    "Placement",
    "Prerequisites",
    "Ranked",
    "Record",
    "RecordContent",
    "RecordData",
    "SuggestedAnswer",
    "Tier",
    "TransitionReason",
    "Triggers",
    "Word",
    "Words",
    "action_line",
    "as_sentence",
    "as_words",
    "carry",
    "columns_of",
    "dollars",
    "failure_detail",
    "failure_reason",
    "fixed",
    "parsed",
    "partition_of",
    "path_of",
    "problem_of",
    "record_id",
    "root_of",
    "shortened",
    "split_key",
    "words_of",
]

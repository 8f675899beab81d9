"""The phrases in which a capability's examples name a request's matter by the word "this".

"Put this on my list" is a frame: its words before and after "this" are trigger words, and what
stands in a request in place of "this" is the matter. "Note to self: this" is a heading: it also
stands alone, above the matter. An example without "this" is no frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    ALSO_NOUNS,
    alike,
    content,
    stem,
    stems,
    words,
)

_SLOT = "this"
_FREE = frozenset({"a", "an", "the", "my", "our", "your", "his", "her", "please"})
_REFERRING = frozenset({"following", "below", "above", "something", "note", "one"})
_JOIN = (
    r"[\s,]+(?:(?:a|an|the|my|our|your|his|her|please|somewhere|quick|short|brief|little|new) )*"
)
_GAP = r"[\s,:;\u2013\u2014-]*"
_BEFORE = r"(?P<before>^|^.*?(?:[,;:\u2013\u2014-]\s*|\b(?:and|so) ))(?:please )?"
# What people say beside the name of a list: "for the weekend list", "note for later".
_BESIDE_WORDS = """
another entry fyi garden home house important item job kitchen later little next office one quick
shopping short small something thing things today urgent week weekend work
"""
_BESIDE = frozenset(_BESIDE_WORDS.split())
_VERBS = frozenset(map(stem, ACTION_VERBS - ALSO_NOUNS))
_HEAD_CHARS_MAX = 50
_HEADED = re.compile(
    rf"(?P<head>[^:\u2013]{{2,{_HEAD_CHARS_MAX}}}?)(?::| [\u2013-]) (?P<slot>.+)", re.DOTALL
)
_EXPLAINS = re.compile(r"(?:it|this|that|there) (?:can|may|is|has|was)\b", re.IGNORECASE)
_EDGE = " \t\n,;:.!?\u2013\u2014-"


@dataclass(frozen=True, slots=True)
class Match:
    """A sentence that has a frame's words, and what it says beside them."""

    matter: str
    # The sentence's text outside frame and matter.
    around: str
    # Whether the matter is only referred to: "put it on my list".
    refers: bool
    # Whether the frame has a word that only this capability has, as "list", unlike "I have to".
    telling: bool
    # What stands before a frame that refers to it: "Buy milk, and put it on my list".
    before: str = ""


@dataclass(frozen=True, slots=True)
class _Frame:
    pattern: re.Pattern[str]
    size: int
    telling: bool


def match(text: str, examples: Sequence[str], known: frozenset[str]) -> Match | None:
    """Return how a sentence fits the longest frame of a capability's examples, or None.

    `known` are the stems of the capability's own words: a matter that has no others only refers.
    """
    for frame in _frames(tuple(examples)):
        found = frame.pattern.search(text)
        if found is None:
            continue
        parts = found.groupdict()
        before = (parts.get("before") or "").strip(_EDGE)
        slot = (parts.get("slot") or "").strip(_EDGE)
        rest = bare(parts.get("rest") or "")[0].strip(_EDGE)
        before = re.sub(r"\b(?:and|so)$", "", before).strip(_EDGE)
        # "Put it on the list, it can wait": the rest only explains.
        rest = "" if refers_only(rest, known) or _EXPLAINS.match(rest) else rest
        if slot.startswith(("'", '"', "\u2018", "\u201c")):
            slot = slot.strip("'\"\u2018\u2019\u201c\u201d")
        refers = refers_only(slot, known)
        if before and not refers:
            continue
        inner = [part for part in (before, "" if refers else slot, rest) if part]
        matter = ", ".join(inner)
        if not matter and slot and not function_only(slot):
            matter = slot
        # "Jot this down: ..." is followed by the matter itself.
        follows = refers and re.match(r"\s*(?::|that\b)", parts.get("rest") or "")
        around = before if follows else None
        around = f"{before} {rest}".strip() if around is None else around
        return Match(matter, around, refers and not (before or rest), frame.telling, before)
    return _headed(text, tuple(examples))


def _headed(text: str, examples: tuple[str, ...]) -> Match | None:
    """Return how a text follows a heading of the examples' words: "One for the garden list: "."""
    found = _HEADED.match(text)
    if found is None:
        return None
    if _SLOT in words(found["head"].lower()):
        return None
    said = {stem(word) for word in content(found["head"]) if word.lower() not in _BESIDE}
    # "Please add: milk" says of no list which one it is.
    if not said - _VERBS or not said <= _heading_words(examples):
        return None
    slot = found["slot"].strip(_EDGE)
    return Match(slot, found["head"], refers=False, telling=True)


@lru_cache(maxsize=512)
def _heading_words(examples: tuple[str, ...]) -> frozenset[str]:
    # "Keep this on file: ..." is an order, and "file" by itself no heading of it.
    named = [one for one in examples if is_heading(one) and words(one.lower()).count(_SLOT) == 1]
    return stems(" ".join(named)) - {_SLOT}


def is_frame(example: str) -> bool:
    """Return whether an example names its matter by "this"."""
    return _SLOT in words(example.lower())


def is_heading(example: str) -> bool:
    """Return whether an example is a heading, with its matter below or behind it."""
    return example.lower().endswith(f": {_SLOT}")


def refers_only(slot: str, known: frozenset[str]) -> bool:
    """Return whether words only refer to what is said elsewhere: "it", "the appointment"."""
    return all(word.lower() in _REFERRING for word in content(slot, explained=known))


def function_only(text: str) -> bool:
    """Return whether a text has no word with a meaning of its own."""
    return not content(text)


def frame_words(examples: Sequence[str]) -> frozenset[str]:
    """Return the stems of all words of frames."""
    return frozenset(
        stem(word) for example in examples if is_frame(example) for word in words(example)
    )


@lru_cache(maxsize=512)
def _frames(examples: tuple[str, ...]) -> tuple[_Frame, ...]:
    found = [frame for example in examples if (frame := _frame(example)) is not None]
    return tuple(sorted(found, key=lambda frame: -frame.size))


def _frame(example: str) -> _Frame | None:
    said = [word.lower() for word in words(example)]
    if _SLOT not in said:
        return None
    if is_heading(example):
        heading = _joined(said[:-1])
        behind = r"(?:,? please)?\s*[:,\u2013\u2014-]+\s*(?P<slot>.*)|(?P<rest>\W*)"
        pattern = rf"{_BEFORE}{heading}(?:{behind})$"
        size = 2 * len(said) - 3
        return _Frame(re.compile(pattern, re.IGNORECASE | re.DOTALL), size, telling=True)
    at = said.index(_SLOT)
    before, after = said[:at], said[at + 1 :]
    if before and before[-1] == "do":
        before = before[:-1]
    prefix = f"{_joined(before)}\\b{_GAP}" if before else ""
    if not before:
        pattern = rf"^(?P<slot>.*?){_GAP}\b{_joined(after)}\b(?P<rest>.*)$"
    elif after:
        pattern = rf"{_BEFORE}{prefix}(?P<slot>.*?){_GAP}\b{_joined(after)}\b(?P<rest>.*)$"
    else:
        # "Remember to call Anna" is no "Remember this", "Note on the visit" no "Note this", and
        # a single verb stands for no other: "Write a song".
        alone = len(before) == 1
        no_object = "to|on|about|of|from|with|for" if before[0] in ALSO_NOUNS else "to"
        verb = "" if before[-1] == "to" else rf"(?!\W*(?:{no_object})\b)"
        begin = re.escape(before[0]) if alone else _joined(before)
        pattern = rf"{_BEFORE}{begin}\b{verb}{_GAP}(?:that\b)?{_GAP}(?P<slot>.*)$"
    size = 2 * (len(before) + len(after)) + bool(before and after)
    telling = bool(content(" ".join((*before, *after))))
    return _Frame(re.compile(pattern, re.IGNORECASE | re.DOTALL), size, telling)


def _alike(word: str) -> str:
    if word not in ACTION_VERBS:
        return re.escape(word)
    # "Would you mind putting": with "-ing" it is the same verb.
    said = sorted(f"{verb}|{verb.removesuffix('e')}{verb[-1]}?ing" for verb in alike(word))
    return f"(?:{'|'.join(said)})"


def _joined(said: Sequence[str]) -> str:
    kept = [_alike(word) for word in said if word not in _FREE] or list(map(re.escape, said))
    lead = r"(?:(?:a|an|the|my|our|your) )?" if said and said[0] in _FREE else ""
    return lead + _JOIN.join(kept)

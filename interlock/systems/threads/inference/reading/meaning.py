"""Measures how near two texts are in meaning, by static word embeddings.

The weights and the tokenizer are files of the installed wordllama package; none is downloaded.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TEXT_CHARS_MAX = 4_000
PARTS_MAX = 24
CACHED_TEXTS_MAX = 2_048
# These words are left out, unless a text has no others: they outweigh the rest of a short text.
_LEFT_OUT = """
a an and are as at be by can could did do does for from had has have he her his i in into is it me
my of on or our please she should so that the their them they this to us was we were will with would
you your
"""
_FUNCTION_WORDS = frozenset(_LEFT_OUT.split())
_SMALLEST = 1e-9
_LETTERS = re.compile(r"\w")

Vectors = npt.NDArray[np.float32]


class Meanings:
    """Texts as unit vectors. Loaded on first use, once a process, safe in threads."""

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = threading.Lock()
        self._known: dict[str, Vectors] = {}

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text; a text without a letter is all zeros."""
        with self._lock:
            return np.stack([self._vector(text) for text in texts])

    def nearness(self, texts: Sequence[str], phrases: Sequence[str]) -> float:
        """Return the greatest cosine between any of the texts and any of the phrases, or 0."""
        return max(self.nearness_of_each(texts, phrases), default=0.0)

    def nearness_of_each(self, texts: Sequence[str], phrases: Sequence[str]) -> list[float]:
        """Return for each text its greatest cosine to any of the phrases, or 0."""
        if not texts or not phrases:
            return [0.0] * len(texts)
        # `@` starts threads for a product of this size, which use more time than the product.
        cosines = np.einsum("ik,jk->ij", self.vectors(texts), self.vectors(phrases))
        return [float(nearest) for nearest in cosines.max(axis=1)]

    def _vector(self, text: str) -> Vectors:
        text = text[:TEXT_CHARS_MAX]
        vector = self._known.get(text)
        if vector is None:
            if self._model is None:
                self._model = _load()
            vector = np.zeros(self._model.embedding.shape[1], np.float32)
            if _LETTERS.search(text):
                vector = self._model.embed([_content(text)])[0]
                vector = vector / max(float(np.linalg.norm(vector)), _SMALLEST)
            if len(self._known) >= CACHED_TEXTS_MAX:
                self._known.clear()
            self._known[text] = vector
        return vector


@cache
def meanings() -> Meanings:
    """Return the embeddings of this process."""
    return Meanings()


def whole(title: str, text: str) -> list[str]:
    """Return the title, and the title with the text."""
    both = f"{title}. {text}" if title and text else title or text
    return _distinct([title, both])


def parts(title: str, text: str) -> list[str]:
    """Return the whole, the text and its sentences: each of them may express the wish."""
    sentences = re.split(r"(?<=[.!?:])\s+|\n+|, ", f"{title}\n{text}"[:TEXT_CHARS_MAX])
    longer = [part for part in sentences if part.endswith(":") or len(part.split()) > 1]
    return _distinct([*whole(title, text), text, *longer])[:PARTS_MAX]


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text.strip() for text in texts if _LETTERS.search(text)))


def _content(text: str) -> str:
    words = text.lower().split()
    kept = [word for word in words if word.strip(".,;:!?\"'()") not in _FUNCTION_WORDS]
    return " ".join(kept or words)


def _load() -> Any:
    with _untouched_logging():
        package = import_module("wordllama")
    folder = Path(str(package.__file__)).parent
    # The library looks for a tokenizer only in its cache, so its own folder is given as the cache.
    return package.WordLlama.load(cache_dir=folder, disable_download=True)


@contextmanager
def _untouched_logging() -> Iterator[None]:
    # When it is imported, the library configures a root logger that has no handler.
    root = logging.getLogger()
    level, placeholder = root.level, logging.NullHandler()
    root.addHandler(placeholder)
    try:
        yield
    finally:
        root.removeHandler(placeholder)
        root.setLevel(level)

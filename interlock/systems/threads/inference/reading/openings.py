"""The verb with which a request begins, as it is compared with those of a capability's examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.frames import is_frame, is_heading
from interlock.systems.threads.inference.reading.sentences import first_sentence, without_code
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    FUNCTION_WORDS,
    OTHER_DEEDS,
    words,
)

# "We need to clean the car" asks for the same as "Clean the car".
_WISH_START = re.compile(
    r"^\W*(?:please |hey |hi |so |and )*"
    r"(?:(?:can|could|would|will) (?:you|we|someone|somebody) (?:please )?"
    r"|(?:i|we|someone|somebody) (?:have|has|need|needs|must|should|ought)(?: to)? "
    r"|(?:need|have|got) to )?(?:please )?",
    re.IGNORECASE,
)
_PARTICLES = frozenset({"away", "back", "down", "off", "on", "out", "over", "up"})
_PARTICLE_WITHIN = 4
# A request that begins with one of these begins with no verb.
_NO_VERB = frozenset(
    {"a", "an", "another", "any", "for", "from", "he", "her", "his", "how", "i", "in", "is", "it"}
    | {"its", "more", "my", "no", "of", "on", "one", "our", "she", "some", "someone", "something"}
    | {
        "that",
        "the",
        "their",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "we",
        "what",
        "when",
    }
    | {"where", "which", "who", "why", "with", "yes", "you", "your"}
)
_PREPOSITIONS = frozenset({"at", "by", "from", "in", "into", "of", "with"})
# These say nothing without their object: "make a note", "make a cake".
_LIGHT_VERBS = frozenset(
    {"be", "do", "get", "give", "go", "have", "keep", "let", "make", "put", "set", "take"}
)
_AFTER_VERB = frozenset(
    {"a", "an", "the", "my", "our", "this", "these", "up", "down", "out", "away"}
)
_OBJECT_BEGINS = _AFTER_VERB | {"his", "her", "their", "your", "in", "back", "off", "over", "some"}
_FOR_OTHERS = frozenset(
    {
        "add",
        "arrange",
        "block",
        "buy",
        "call",
        "enter",
        "file",
        "pay",
        "phone",
        "plan",
        "put",
        "ring",
    }
    | {"run", "schedule", "talk", "visit", "meet", "archive", "count", "note", "write"}
)
_WORD = re.compile(r"[a-z]+")
_FILLER = frozenset({"a", "an", "the", "my", "new", "please", "for", "me", "this", "to", "re"})


def openings(examples: Sequence[str]) -> frozenset[str]:
    """Return the verbs with which examples begin.

    The verb around a matter counts with its particle alone: "write this down" is not "write".
    """
    found = ((example, opening(example)) for example in examples)
    return frozenset(verb for example, verb in found if " " in verb or not is_frame(example))


def verbs(examples: Iterable[str]) -> frozenset[str]:
    """Return the first words of examples that are verbs, as what follows them shows."""
    found = (words(example)[:2] for example in examples if not is_heading(example))
    return frozenset(
        said[0].lower()
        for said in found
        if len(said) > 1
        and said[0].lower() not in FUNCTION_WORDS
        and (said[1].lower() in _AFTER_VERB or said[1][0].isupper())
    )


def orders_an_errand(text: str) -> bool:
    """Return whether a text begins like "Mow the lawn", with a verb that nobody does for others.

    "Call a cab" and "Pay the bill" may be wanted of the one who is asked.
    """
    said = words(bare(first_sentence(without_code(text)))[0].lower())[:2]
    is_order = len(said) > 1 and (said[1] in _OBJECT_BEGINS or said[0] in ACTION_VERBS)
    return is_order and said[0] not in FUNCTION_WORDS | OTHER_DEEDS | _FOR_OTHERS


def opening(text: str) -> str:
    """Return the verb with which a request begins, with its particle, as in "write down".

    The object belongs to a verb that says nothing by itself: "make note".
    """
    said = first_sentence(without_code(text))
    found = _WORD.findall(_WISH_START.sub("", said, count=1).lower())
    if not found or found[0] in _NO_VERB:
        return ""
    verb, *rest = found
    if verb in _LIGHT_VERBS:
        rest = [word for word in rest if word not in _FILLER | _PARTICLES | _PREPOSITIONS]
        return f"{verb} {rest[0]}" if rest else verb
    particles = [word for word in rest[: _PARTICLE_WITHIN - 1] if word in _PARTICLES]
    return " ".join([verb, *particles[:1]])

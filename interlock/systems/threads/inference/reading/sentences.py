"""Splits a request into sentences, and says of each what it does: wish, ask, state or name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum, auto

from interlock.systems.threads.inference.reading.courtesy import (
    bare,
    is_polite_order,
    without_closings,
)
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    ALSO_NOUNS,
    content,
    stem,
    words,
)

_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# No sentence ends after "Dr." or an initial.
_SENTENCE_END = re.compile(
    r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bSt\.)(?<!\bNo\.)(?<!\be\.g\.)"
    r"(?<!\bi\.e\.)(?<!\b[A-Z]\.)(?<!\bapprox\.)(?<!\d\.\d\.)(?<!\d\.\d\d\.)"
    r"(?<!\b(?:Lt|Fr|Jr|Sr|Rd)\.)(?<!\b(?:Col|Gen|Sgt|Maj|Cpl|Hon|Rev|Mme|Ave)\.)"
    r"(?<!\b(?:Capt|Cllr)\.)(?<=[.!?;])[\"'\u2019\u201d)]?\s+|\n+"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*\u2022]|\d{1,3}[.)])[ \t]+")
_QUESTION_START = re.compile(
    r"^\W*(?:(?:and|but|so|oh|hey|hi|also)[ ,]+)*(?:who|whose|is|are"
    # "What the landlord said" is a heading, "what did the landlord say" is a question.
    r"|(?:what|when|where|why|which|how)(?:'s|'re)?\b(?=(?: \S+){0,6}?"
    r" (?:is|are|was|were|am|do|does|did|should|shall|will|would|has|have|can|could|may)\b)"
    r"|(?:what|when|where|how)'s"
    r"|was|were|am|do (?:i|we|you|they|these|those|any)|does"
    r"|did|should|shall|will|would|has|have (?:i|we|you|they|the)|can i|can we"
    r"|may i|could i|could we|any (?:idea|news|chance|word)|"
    r"(?:do |does )?anyone know|i wonder|i(?:'m| am) wondering|wondering"
    r"|i (?:don't|do not) (?:know|remember) (?:if|whether|what|when|where|who|how)"
    r"|i(?:'d| would)? (?:like|need|want) to know|i(?:'m| am) not sure (?:if|whether|what|when))"
    r"(?:'s|'re)?\b",
    re.IGNORECASE,
)
# "Can you tell me where it is?" asks for an answer all the same.
_WANTS_ANSWER = re.compile(
    r"^(?!.*\b(?:remind me to|(?:i|we)(?:'ve| have)? (?:need|have|must|should|ought|got)"
    r"(?: to)?)\b).*"
    r"\b(?:tell me|let me know|show me|explain|find out|remind me|check|look up|see|say|know|wonder"
    r"|sure)\b[^.,]{0,20}? (?:who|whose|what|when|where|why|which|how|if|whether)\b",
    re.IGNORECASE,
)
# "Pop it in my calendar?" is no question, whatever stands at its end.
_CALLS_FOR = re.compile(rf"(?:{'|'.join(sorted(ACTION_VERBS))}) (?:it|this|that)\b", re.IGNORECASE)
_TAG = re.compile(
    r"[,. ]+(?:will|would|could|can) you(?: please)?\?$|[, ]+(?:please|ok|okay)\?$", re.IGNORECASE
)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|cannot|could|should|must|may|might|does|did"
    r"|comes?|needs?|wants?|goes|gets?|says?|said|likes?|takes?|starts?|runs out|gave|told|asked"
    r"|promised|moved|came|went|met|happened"
    r"|joins|works|visits|stays|begins|ends|opens|closes|stands|costs|speaks|lives|joined|fell"
    r"|belongs?|arrives?|leaves?|expects?|lies|hangs|thinks?|knows?|got|made|sent)\b"
    r"|\w(?:n't|'ll|'re|'ve|'d)\b|\b(?:i|it|he|she|that|there|who)'s\b",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"^\W*(?:i|we|you|he|she|it|they|there|this|that|these|those|everybody|nobody|everyone"
    r"|no one)\b"
    r"(?!\W*$)(?!:)",
    re.IGNORECASE,
)
# "Should go to the archive", "can be put away", "has to be printed".
_DEONTIC = re.compile(
    r"\b(?:can|could|should|must|has to|have to|needs? to|ought to|may|is to|are to|needs?|goes"
    r"|belongs?"
    r"|(?:is|are) needed)\b",
    re.IGNORECASE,
)
# Someone who says this wants no action before.
_ASKS_FIRST = re.compile(
    r"\b(?<!need to )(?:ask|check with|consult|call|tell) me (?:first|before|if)\b"
    r"|\bbefore you (?:do|decide)\b",
    re.IGNORECASE,
)
_PURPOSE = re.compile(
    r",? so (?:that |nobody|no one|we|i|you|it|he|she|they|every|any)[^;:]*$", re.IGNORECASE
)
_NEEDS = re.compile(r"\b(?:needs?|requires?|wants? (?:him|her|them) to)\b.*", re.IGNORECASE)
_ABOUT_OTHERS = re.compile(r"^\W*(?:he|she|they|his|her|their|who)\b", re.IGNORECASE)
# "Lunch with Tom", "call with Lena" and "order from Hartmann" name something.
_AFTER_ALSO_NOUNS = frozenset({"on", "about", "for"})
_STEMS = frozenset(map(stem, ACTION_VERBS))
_PARTICLES = frozenset({"away", "back", "down", "off", "on", "out", "over", "up"})
_AFTER_NOUN = frozenset({"with", "from", "of", "at", "between", "w", "in", "and"})


class SentenceRole(StrEnum):
    """What a sentence does in a request."""

    COURTESY = auto()
    LABEL = auto()
    QUESTION = auto()
    STATEMENT = auto()
    WISH = auto()


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence of the title or the text, without its code."""

    text: str
    in_title: bool = False
    bullet: bool = False


# "I have read it, so file it away": an order that follows from what was said.
_SO = re.compile(
    r"(?:[,;]| [\u2013-])\s+(?=(?:(?:and )?so (?:please )?|please )[a-z]+\b"
    r"|[a-z]+ (?:it|one|this|that|them|another)\b"
    r"|(?:and )?so (?:it|this|that|they) (?:can|should|may|must|needs?|goes|go|belongs?)\b)",
    re.IGNORECASE,
)


def _orders(text: str) -> list[str]:
    """Split a sentence before an order that refers to what stands before it."""
    none: frozenset[str] = frozenset()
    for match in _SO.finditer(text):
        rest = bare(text[match.end() :])[0]
        ordered = begins_with_verb(rest, none) or (is_deontic(rest) and has_subject(text))
        if ordered and not begins_with_verb(bare(text)[0], none):
            return [text[: match.start()], text[match.end() :]]
    return [text]


def split(title: str, text: str) -> list[ReadSentence]:
    """Return the sentences of a request in their order."""
    found = []
    for source, in_title in ((title, True), (text, False)):
        for line in without_code(source).split("\n"):
            bullet = _BULLET.match(line) is not None
            found += [
                ReadSentence(part.strip(), in_title, bullet)
                for whole in _SENTENCE_END.split(_BULLET.sub("", line, count=1))
                if whole and whole.strip()
                for part in _orders(whole)
            ]
    return found


def without_code(text: str) -> str:
    """Return the text without the code in backticks, which is read as commands."""
    return _INLINE.sub(" ", _FENCED.sub(" ", text))


def first_code(text: str) -> str | None:
    """Return the first code in backticks, or None."""
    for pattern in (_FENCED, _INLINE):
        if (match := pattern.search(text)) and match.group(1).strip():
            return match.group(1).strip()
    return None


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0].strip()


def asks(text: str) -> bool:
    """Return whether one English sentence wants an answer: a question that is no polite order."""
    plain = _TAG.sub("", text.strip())
    if _WANTS_ANSWER.search(plain):
        return True
    if is_polite_order(plain):
        return False
    if _CALLS_FOR.match(bare(plain)[0]) and not _QUESTION_START.match(plain):
        return False
    return plain.endswith("?") or _QUESTION_START.match(plain) is not None


def has_question(text: str) -> bool:
    """Return whether one of the English sentences is a question, and not a polite order."""
    return any(asks(sentence.text) for sentence in split("", text))


def begins_with_verb(text: str, verbs: frozenset[str]) -> bool:
    """Return whether a text begins with an order's verb, and not with the noun of that spelling."""
    said = [word.lower() for word in words(text)]
    known = ACTION_VERBS | verbs
    if not said or not (said[0] in known or (said[0].endswith("ing") and stem(said[0]) in _STEMS)):
        return False
    after = text[len(said[0]) :].lstrip()
    # "Tidy up" is a heading.
    has_object = not set(said[1:]) <= _PARTICLES
    if said[0] in ALSO_NOUNS and said[1:] and said[1] in _AFTER_ALSO_NOUNS:
        return False
    return has_object and said[1] not in _AFTER_NOUN and not after.startswith((":", "-"))


def role(
    sentence: ReadSentence, core: str, *, framed: bool, wished: bool, verbs: frozenset[str]
) -> SentenceRole:
    """Return what a sentence does. `core` is its text without polite words and trigger words."""
    if asks(sentence.text):
        return SentenceRole.QUESTION
    if framed:
        return SentenceRole.WISH
    if not content(sentence.text) or not without_closings(f" {sentence.text}"):
        return SentenceRole.COURTESY
    if wished or begins_with_verb(core, verbs):
        return SentenceRole.WISH
    if _SUBJECT.match(core) or _FINITE.search(core):
        return SentenceRole.STATEMENT
    return SentenceRole.LABEL


def asks_first(text: str) -> bool:
    """Return whether a sentence says that a person wants to be asked before anything is done."""
    return _ASKS_FIRST.search(text) is not None


def without_purpose(text: str) -> str:
    """Return a sentence without the clause that says what it is good for: "so that ..."."""
    return _PURPOSE.sub("", text)


def has_subject(text: str) -> bool:
    """Return whether a text says who does what, as a statement does."""
    return _SUBJECT.match(text) is not None or _FINITE.search(text) is not None


def without_tail(text: str) -> str:
    """Return an order without a statement that hangs on it: "..., and that is me"."""
    for match in re.finditer(r"[,;]\s+|\s[\u2013-]\s", text):
        if match.start() and has_subject(text[match.end() :]):
            return text[: match.start()]
    return text


def is_deontic(text: str) -> bool:
    """Return whether a statement says what is to be done, and is not about somebody else."""
    return _DEONTIC.search(text) is not None and _ABOUT_OTHERS.match(text) is None


def says_need_of(text: str, noun: str) -> bool:
    """Return whether a statement says that somebody needs something: "she needs a badge"."""
    match = _NEEDS.search(text)
    return match is not None and noun in map(stem, words(match.group()))

"""The polite words around a request, which say that it is one and are no part of the order.

"Would you be so kind as to file it" and "I'd be glad if you filed it" both ask to file it.
"""

from __future__ import annotations

import re

from interlock.systems.threads.inference.reading.words import words

_ASKED = r"(?:you|u|we|someone|somebody|anyone|anybody)"
_MODAL = r"(?:can|could|would|will|might)"
_SOFTLY = r"(?:please |kindly |possibly |perhaps |maybe |just |also |quickly |ever so kindly )*"
_IF_YOU = r"(?:if|whether|that) you (?:could |would |can |might |were to )?"
_FAVOUR = (
    r"(?:be (?:so (?:kind|good) (?:as to|and)|a dear and|an angel and|a darling and|kind enough to)"
    r"|do me (?:a|the) favou?r (?:and|of)|take care to|go ahead and|try to) "
)
_GLAD = r"(?:grateful|glad|happy|thankful|obliged|pleased|delighted)"
_LOVELY = r"(?:lovely|great|nice|good|helpful|kind|wonderful|useful|handy|brilliant|splendid)"
_GREETING = (
    r"(?:please|pls|plz|hi|hello|hey|oh|so|and|but|also|then|ok|okay|kindly|finally|next"
    r"|after that|and then|(?:first|second|secondly|third)(?=[,:])|thanks|sorry|just|urgent"
    r"|important|quick one|dear \w+|good (?:morning|afternoon|evening))\b[,: !]*"
)
# Forms of questions and statements that ask for a deed and for no answer.
_ASKING = (
    rf"would you mind {_SOFTLY}|(?:{_MODAL}|do) {_ASKED}\b[, ]*{_SOFTLY}(?:{_FAVOUR})?"
    r"|(?:would|might) it be (?:at all )?possible (?:for you |for someone )?(?:to (?:have |get )?)"
    r"|would it be (?:ok|okay|all right|alright|too much trouble|too much) (?:for you )?to "
    rf"|(?:is there )?any (?:chance|possibility) (?:that )?you (?:could|can|might|would) {_SOFTLY}"
    rf"|(?:may|might|could|can) i (?:please )?(?:ask|bother|trouble) you to {_SOFTLY}"
    r"|i (?:wonder|wondered|was wondering|am wondering) (?:if|whether) you"
    rf" (?:could|would|might|can) {_SOFTLY}"
)
_SAYING = (
    rf"(?:i|we)(?:'d| would| should|'ll) be (?:\w+ )?{_GLAD} (?:{_IF_YOU}|for |to have ){_SOFTLY}"
    rf"|(?:it|that)(?:'d| would) be (?:\w+ )?{_LOVELY}(?: of you)? (?:{_IF_YOU}|to have |to get )"
    rf"{_SOFTLY}"
    rf"|(?:i|we)(?:'d| would)? (?:really |much )?appreciate (?:it {_IF_YOU}|having )"
    rf"|i(?: was|'m| am)? (?:hoping|hoped|hope) (?:that )?you (?:could|would|can|will) {_SOFTLY}"
    rf"|if you (?:could|would|can)(?: please)?,? {_SOFTLY}(?={_FAVOUR}|\w)"
    r"|when(?:ever)? you (?:can|have (?:time|a (?:minute|moment))),? "
    rf"|{_FAVOUR}"
)
# Begging for a thing asks for a deed only where somebody makes or keeps that thing.
_BEGGING = (
    r"(?:may|might|could|can) (?:i|we) (?:please |possibly )?"
    r"(?:have |get |(?:trouble|bother|ask) you for )"
)
_NEEDING = (
    r"(?:i(?:'d| would)|we(?:'d| would)) (?:like|love|need|want)"
    r"(?: (?:you|someone|somebody))?(?: to)? "
    r"|(?:i|we|you|someone|somebody|anyone) (?:still |really |also |just )?"
    r"(?:have to|has to|need to|needs to|must|should|ought to|want to|gotta"
    r"|(?:need|want|require)(?: (?:you|someone|somebody))?(?: to)?)(?: really| probably| also)? "
    r"|(?:need|want) (?=(?:an?|the|one|some|another|new|it|this) )"
    r"|(?:i|we)(?:'ve| have) got to |(?:need to|have to|must|got to|gotta) "
    r"|(?:let's|lets) (?!not )|(?:see|see to it) that (?:i |we )?"
    r"|make sure (?:that |to )?(?:i |we )?"
    r"|be sure to |remember to "
    r"|(?:i |we )?(?:don't|dont|do not|never|mustn't|must not|let's not|lets not) forget"
    r" (?:to |that )?"
)
_OPENINGS = re.compile(
    rf"^\W*(?:{_GREETING}|{_BEGGING}|{_ASKING}|{_SAYING}|{_NEEDING})+", re.IGNORECASE
)
_LEAD = r"^\W*(?:(?:please|hey|hi|hello|so|and|sorry)[ ,]+)*"
_POLITE_ORDER = re.compile(
    rf"{_LEAD}(?:{_ASKING})(?![, ]*(?:think|know|remember|believe|have|say|agree|recommend)\b)",
    re.IGNORECASE,
)
_BEGS = re.compile(rf"{_LEAD}{_BEGGING}", re.IGNORECASE)
_HOPES = re.compile(
    rf"{_LEAD}(?:can|could|might|may) (?!i\b|we\b|you\b)\S+ (?:\w+ ){{0,4}}(?:be|go)\b",
    re.IGNORECASE,
)
# Openings that do not say that something is wished for.
_NEUTRAL_WORDS = """
and but so also then hi hello hey oh thanks sorry just urgent important dear good morning afternoon
evening first second secondly third next finally after that ok okay quick one
"""
_NEUTRAL = frozenset(_NEUTRAL_WORDS.split())
_CLOSINGS = re.compile(
    r"(?:[\s,.;!?\u2013-]+(?:please|pls|plz|thanks(?: \w+){0,3}|thank you(?: \w+){0,3}|cheers|thx"
    r"|(?:will|would|could|can) (?:you|u)(?: please)?|ok(?:ay)?"
    r"|if you (?:can|could|would|don't mind)|if possible|if i can"
    r"|(?:please )?remind me(?: please| of (?:it|that|this)| about (?:it|that|this))?"
    r"|before (?:i|we) (?:forget|lose)(?: it| this| that)?"
    r"|when(?:ever)? you (?:can|have (?:time|a (?:minute|moment)))"
    r"|no hurry|no rush"
    r"|not urgent|nothing urgent|many thanks|ta|asap|that would be (?:\w+ )?"
    rf"{_LOVELY}))*[\s,.;!?\u2013-]*$",
    re.IGNORECASE,
)
# Conditions that are only polite: "I'd be glad if you put it in the calendar".
POLITE_IF = rf"\b(?:{_GLAD}|{_LOVELY}|of you|appreciate it) if you\b|\bif i can\b"


def is_polite_order(text: str) -> bool:
    """Return whether a sentence has the form of a question and asks for a deed."""
    return _POLITE_ORDER.match(text) is not None or begs(text)


def begs(text: str) -> bool:
    """Return whether a sentence asks to have something: "Might I have a badge?"."""
    return _BEGS.match(text) is not None


def hopes(text: str) -> bool:
    """Return whether a sentence asks that something be done: "Could it be filed?"."""
    return _HOPES.match(text) is not None


def as_having(text: str) -> str:
    """Return a sentence that begs for a thing as an order: "have a badge"."""
    return _BEGS.sub("have ", text)


def without_closings(text: str) -> str:
    """Return a sentence without the polite words at its end."""
    return _CLOSINGS.sub("", text)


def bare(text: str) -> tuple[str, bool]:
    """Return a sentence without its polite words, and whether they say that it is a wish."""
    opening = _OPENINGS.match(text)
    wished = opening is not None and any(
        word.lower() not in _NEUTRAL for word in words(opening.group())
    )
    rest = text[opening.end() :] if opening else text
    return without_closings(rest).strip(), wished

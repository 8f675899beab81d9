"""Accounts for each word of a request: trigger word, value of a parameter, courtesy, or unused.

What no parameter took, and what the trigger words of the capability do not explain, was not used: a
person has to know of it before it is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from interlock.system.models import OfferedCapability
from interlock.systems.threads.inference.reading import compose, dates, frames, sentences
from interlock.systems.threads.inference.reading.mention import When
from interlock.systems.threads.inference.reading.phrases import ATTRIBUTES
from interlock.systems.threads.inference.reading.pieces import (
    TIMES,
    Piece,
    hints,
    object_of,
    own_words,
    phrase_words,
    phrases_of,
    pieces,
    schemas,
    takes_mention,
)
from interlock.systems.threads.inference.reading.request import ReadRequest, without_paths
from interlock.systems.threads.inference.reading.sentences import SentenceRole
from interlock.systems.threads.inference.reading.words import (
    ACTION_VERBS,
    MEETING_VERBS,
    REMINDS,
    STORES,
    alike,
    content,
    stem,
    stems,
    words,
)

_AFTER_NOUN = frozenset({"with", "at", "from", "of", "about", "for", "on"})
# What a document is called is told by its path. "In the red folder" names no document.
_NOT_NAMED = (
    r"under|in|into|to|with|within|as|at|and|or|then|before|after|by|when|while|twice|again|also|only"
    r"|is|are|was|can|could|should|must|may|goes|go|belongs|has|have|needs|away|out|off|it|them"
)
_NAMED = rf"(?:(?!(?:{_NOT_NAMED})\b)[^\W_][\w'&\u2019-]*)"
_DESCRIBED = re.compile(
    rf"(?P<before>^|\b(?!(?:{_NOT_NAMED})\b)\w+[\s(]+|[-:;(,.] *)"
    rf"(?:the|my|our|this|that|her|his|their|a|an|your)(?: {_NAMED})+"
    # "Scan of the wedding photo, tray/scan.jpg"
    rf"|^{_NAMED}(?: {_NAMED})*(?=[,:(])",
    re.IGNORECASE,
)
# "For the plumber, his name is Okafor"
_PERSON = re.compile(r"\bfor (?:the|our|my|a|an)(?: [a-z]+){1,3}(?=[,.;:]| called| named|\W*$)")
CALLED = re.compile(
    r"\b(?:of|in|for|does) (?:(?:the|this|that|these|my|our|your|following|whole|attached|below) )+"
    r"\w+(?:(?: \w+){1,2}(?=\W*$))?",
    re.IGNORECASE,
)


_STORED = frozenset(map(stem, STORES | REMINDS))


@dataclass(frozen=True, slots=True)
class Account:
    """What a capability takes from a request, and what it leaves."""

    choice: OfferedCapability
    pieces: tuple[Piece, ...]
    values: Mapping[str, object]
    phrases: Mapping[str, str] = field(default_factory=dict)
    # Values of which a wish has room for one: several days, paths, names.
    rivals: tuple[str, ...] = ()
    # The words of its wish that were not used, and those beside it, which only explain.
    unused: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    # The sentences of `aside`.
    explained_by: tuple[str, ...] = ()


def account(choice: OfferedCapability, request: ReadRequest, verbs: frozenset[str]) -> Account:
    """Read a request for one capability. `verbs` are those with which an order may begin."""
    found = pieces(choice, request, verbs)
    taken = hints(choice)
    phrases = compose.after_phrases(choice, found)
    when, rivals = _when(found, taken)
    when = request.when.or_else(when) if request.remarks else when
    title, title_from = compose.title(found, choice)
    people = compose.people(found, choice) if "name" in taken else []
    paths = request.paths or request.item_paths
    values: dict[str, object] = {
        "title": title or None,
        "matter": compose.matter(found),
        "details": compose.details(found, title, title_from),
        "text": _text(request, found),
        "command": request.command,
        "path": paths[0] if len(paths) == 1 else None,
        "list": list(request.bullets) or None,
        "name": people[0] if len(people) == 1 else None,
        "duration": when.minutes,
        "date": str(when.day) if when.day else None,
        "datetime": f"{when.day}T{when.time_of_day}" if when.day and when.time_of_day else None,
    }
    rivals += paths if "path" in taken and len(paths) > 1 else ()
    rivals += people if len(people) > 1 else ()
    left = _Left(choice, values, phrases)
    if not taken & {"path", "matter", "text"} and not any(piece.framed for piece in found):
        left.unused += request.paths
    wished = any(piece.role is SentenceRole.WISH for piece in found)
    # "Bring small change next time. Put that in my notes": what stands before is the note.
    notes = max((at for at, one in enumerate(found) if one.framed and one.refers), default=-1)
    for at, piece in enumerate(found):
        left.count(piece, wished=wished, noted=at < notes)
    return Account(
        choice,
        tuple(found),
        values,
        phrases,
        tuple(rivals),
        unused=tuple(dict.fromkeys(left.unused)),
        aside=tuple(dict.fromkeys(left.aside)),
        explained_by=tuple(left.sentences),
    )


class _Left:
    """What a capability leaves of a request, sentence by sentence."""

    def __init__(
        self, choice: OfferedCapability, values: Mapping[str, object], phrases: Mapping[str, str]
    ) -> None:
        self.unused: list[str] = []
        self.aside: list[str] = []
        self.sentences: list[str] = []
        self._choice, self._values, self._phrases = choice, values, phrases
        self._hints = hints(choice)
        named = stems(" ".join(schemas(choice)).replace("_", " "))
        own = own_words(choice) | phrase_words(choice) | named
        own |= {stem(choice.name.replace("_", ""))}
        firsts = (words(example)[0].lower() for example in choice.examples if words(example))
        same = " ".join(other for verb in firsts for other in alike(verb))
        known = own | stems(" ".join(choice.examples)) | stems(same)
        used = [str(values[hint]) for hint in self._hints & set(values) if values[hint] is not None]
        taken = " ".join((*used, *phrases.values()))
        self._explained = known | stems(taken) | stems(_parted(taken))
        # "Put bill-7.pdf with the bills": what stands behind a path is no description of it.
        self._path = str(values["path"] or "") if "path" in self._hints else ""
        self._behind_path = own | stems(" ".join(phrases.values()))

    def count(self, piece: Piece, *, wished: bool, noted: bool) -> None:
        """Count the words of a sentence that were not used."""
        if "command" in self._hints and self._values["command"]:
            # The code says what is to be done; the rest says what for.
            return
        if "matter" in self._hints:
            if piece.role is SentenceRole.WISH and not piece.framed and not noted:
                # What is to be written down cannot be told from the wish to do it.
                self.unused += words(piece.order)[:2]
            return
        if sentences.asks_first(piece.sentence.text):
            self.unused.append(piece.sentence.text)
        wished = wished or bool(self._path and self._path not in piece.sentence.text)
        heading = piece.role is SentenceRole.LABEL and wished and piece.sentence.in_title
        # A title that has a value is no mere heading: "tray/a.pdf -> bills".
        heading = (
            heading and not piece.framed and self._path not in (piece.order, *piece.order.split())
        )
        needs = sentences.says_need_of(piece.order, object_of(self._choice))
        explains = piece.role is SentenceRole.STATEMENT or heading or needs
        self._count_unclear_times(piece, explains=explains)
        if "details" in self._hints:
            self._count_stores(piece)
            return
        self._count_named(piece)
        found = self._words(piece)
        tail = piece.order.removeprefix(sentences.without_tail(piece.order))
        if tail and not explains:
            # "Badge for Mr Okafor, he comes at ten"
            explained = self._words(replace(piece, order=tail))
            self.aside += explained
            self.sentences += [tail.strip(" ,;-")] if explained else []
            found = [word for word in found if word not in explained]
        if explains:
            self.aside += found
            self.sentences += [piece.sentence.text] if found else []
        else:
            self.unused += found

    def _count_named(self, piece: Piece) -> None:
        """Count the name of a parameter that has no value: "in the usual folder"."""
        said = stems(without_paths(piece.order))
        for name, schema in schemas(self._choice).items():
            lacks = phrases_of(schema) and name not in self._phrases
            if lacks and stem(name) in said:
                self.unused.append(name)

    def _count_unclear_times(self, piece: Piece, *, explains: bool) -> None:
        ended = self._values["duration"] is not None
        unclear = [one for one in piece.mentions if one.unclear and not (one.ends and ended)]
        if "details" in self._hints:
            timed = "datetime" in self._hints
            unclear = [one for one in unclear if timed or not one.is_clock]
            unclear = [one for one in unclear if not (explains and one.is_vague)]
        if self._hints & TIMES or not explains:
            self.unused += [one.words for one in unclear]

    def _words(self, piece: Piece) -> list[str]:
        placeless = [
            one.words
            for one in piece.mentions
            if not takes_mention(self._hints, one) and not one.unclear
        ]
        of_times = stems(" ".join(one.words for one in piece.mentions))
        said = without_paths(piece.order)
        if "text" in self._hints:
            # "The words of this poem": what the text is called is no further wish.
            said = CALLED.sub(" ", re.sub(r"\b(?:know|see|check|find)\b", " ", said))
        if "path" in self._hints:
            said = _DESCRIBED.sub(lambda match: match["before"] or "", said)
        if "name" in self._hints:
            said = _PERSON.sub(" ", said)
        left = content(said, explained=self._explained | of_times)
        behind = piece.order.partition(self._path)[2] if self._path else ""
        return placeless + left + content(behind, explained=self._behind_path | of_times)

    def _count_stores(self, piece: Piece) -> None:
        """Count what a title says of a list or a calendar: it is no part of what is put there."""
        title = words(str(self._values["title"] or "")) if piece.matter else []
        self.unused += [word for word in title if stem(word) in _STORED]
        told = piece.framed and sentences.has_subject(piece.matter)
        if "date" in self._hints and self._values["date"] is None and told:
            # "Don't forget: his wife is called Ines" tells something, and nothing to be done.
            deontic = sentences.is_deontic(piece.matter)
            self.unused += [] if deontic else words(piece.matter)[:2]
        if piece.role is not SentenceRole.STATEMENT and not piece.refers:
            found = ATTRIBUTES.finditer(f"{' '.join(title)}. {piece.order}")
            self.unused += [match.group() for match in found]
        if "datetime" in self._hints and title and title[0].lower() not in MEETING_VERBS:
            # "Add Anna to the meeting" and "Pencil in Tom" are no titles.
            verb = title[0].lower() in ACTION_VERBS and not set(title[1:2]) & _AFTER_NOUN
            if verb or stem(title[0]) in _framing(self._choice):
                self.unused.append(title[0])


def _when(found: Sequence[Piece], taken: frozenset[str]) -> tuple[When, list[str]]:
    """Return the day, the time and the length that a request gives, and those that compete."""
    when = When()
    rivals: list[str] = []
    named = [one for piece in found for one in piece.mentions if takes_mention(taken, one)]
    for kind in ("day", "time_of_day", "minutes"):
        of_kind = [one for one in named if getattr(one.when, kind) is not None]
        if len({getattr(one.when, kind) for one in of_kind}) > 1:
            rivals += [one.words for one in of_kind]
    for one in named:
        when = when.or_else(one.when)
    if "duration" in taken and when.time_of_day and when.minutes is None:
        ends = [end for piece in found for one in piece.mentions for end in one.ends]
        when = when.or_else(When(minutes=dates.minutes_until(when.time_of_day, ends)))
    return when, rivals


def _parted(text: str) -> str:
    return re.sub(r"[_/.-]", " ", text)


def _framing(choice: OfferedCapability) -> frozenset[str]:
    """Return the stems of the verbs that say where a matter goes: "put", "add"."""
    return frozenset(
        stem(words(one)[0])
        for one in choice.examples
        if frames.is_frame(one) and not frames.is_heading(one)
    )


def _text(request: ReadRequest, found: Sequence[Piece]) -> str | None:
    """Return the text to work on: the body, or what stands behind the wish and a colon."""
    body_wishes = any(
        piece.role in {SentenceRole.WISH, SentenceRole.QUESTION} and not piece.sentence.in_title
        for piece in found
    )
    if request.body and not body_wishes:
        return request.body
    behind = _unquoted(request.head_and_rest[1] or request.heading.partition(":")[2].strip())
    return behind or (None if body_wishes else _told(found))


def _told(found: Sequence[Piece]) -> str | None:
    """Return the title as the text, unless it is the wish to do something with a text."""
    if {piece.role for piece in found} & {SentenceRole.WISH, SentenceRole.QUESTION}:
        return None
    return " ".join(piece.sentence.text for piece in found) or None


def _unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    quoted = re.fullmatch(r"[\"\u201c](.*)[\"\u201d]", text, re.DOTALL)
    return quoted.group(1) if quoted else text

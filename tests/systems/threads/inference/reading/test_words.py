"""Names, languages, and the phrases that stand around what a request is about."""

from __future__ import annotations

import pytest

from interlock.systems.threads.inference.reading import frames
from interlock.systems.threads.inference.reading.courtesy import bare
from interlock.systems.threads.inference.reading.language import foreign_language
from interlock.systems.threads.inference.reading.names import introduced, names
from interlock.systems.threads.inference.reading.sentences import asks
from interlock.systems.threads.inference.reading.words import stem, stems

BADGE = stems("print a name badge for a visitor or a colleague")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a badge for Mr Okafor", ["Mr Okafor"]),
        ("Print Sofia Rossi a visitor badge", ["Sofia Rossi"]),
        ("a badge for Dr. Amara Nwosu, please", ["Dr. Amara Nwosu"]),
        ("badge for Mrs van der Berg", ["Mrs van der Berg"]),
        ("Fatima al-Sayed and Jean-Luc Moreau", ["Fatima al-Sayed", "Jean-Luc Moreau"]),
        ("for Ms O'Neill of Hartmann", ["Ms O'Neill"]),
        ("Collect the badge", []),
        ("a badge for the new colleague", []),
    ],
)
def test_a_name_is_found_by_its_capitals(text: str, found: list[str]) -> None:
    assert names(text, BADGE) == found


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Erinnere mich bitte am Freitag daran", "de"),
        ("Termin am Dienstag eintragen", "de"),
        ("Rendez-vous chez le dentiste mardi", "fr"),
        ("M\u00fcll rausbringen", "de"),
        ("Zahnarzt Dienstag", "de"),
        ("请提醒我买牛奶", "zh"),
        ("Ricordami di chiamare Anna domani", "it"),
        ("Print a visitor badge for Ms Ingrid S\u00f8rensen", None),
        ("Ring Siobhan O'Neill", None),
        ("Archive ./tray/warranty.pdf", None),
        ("Buy K\u00e4sesp\u00e4tzle", None),
        ("ok", None),
        ("", None),
    ],
)
def test_another_language_is_told_from_english_with_foreign_names(
    text: str, language: str | None
) -> None:
    assert foreign_language(text) == language


@pytest.mark.parametrize(
    ("example", "text", "matter", "refers"),
    [
        ("Put this on my list", "put 'buy milk' on the list", "buy milk", False),
        ("Put this on my list", "put it on my list", "", True),
        ("Put this on my list", "Buy milk, and put it on my list", "Buy milk", False),
        ("Put this in my diary", "put lunch in my diary: Friday", "lunch, Friday", False),
        ("Note that this", "note that Tom moved", "Tom moved", False),
        ("Note to self: this", "Note to self - buy milk", "buy milk", False),
        ("Note to self: this", "note to self", "", True),
        ("Remind me to do this", "remind me to call Anna", "call Anna", False),
        ("Put this on my list", "putting milk on my list", "milk", False),
        ("Put this on my list", "Put it on the list, it can wait", "", True),
        ("Note: this", "One little note for the office: buy milk", "buy milk", False),
        ("Note this", "Note the meter reading", "the meter reading", False),
    ],
)
def test_a_frame_gives_what_stands_in_place_of_this(
    example: str, text: str, matter: str, *, refers: bool
) -> None:
    found = frames.match(text, (example,), frozenset())

    assert found is not None
    assert (found.matter, found.refers) == (matter, refers)


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ("Put this on my list", "do not put milk on my list"),
        ("Remember this", "remember to call Anna"),
        ("Buy paper", "buy paper"),
        ("Note this", "Note on the visit"),
        ("Note this", "Write a song"),
        ("Note: this", "Meeting about the note: Friday"),
    ],
)
def test_other_words_are_no_frame(example: str, text: str) -> None:
    assert frames.match(text, (example,), frozenset()) is None


@pytest.mark.parametrize(
    ("text", "bare_text"),
    [
        ("Would you be so kind as to file it", "file it"),
        ("I'd be grateful if you could file it", "file it"),
        ("Would it be possible to have a badge printed?", "a badge printed"),
        ("Is there any chance you could file it?", "file it"),
        ("Might I trouble you for a badge?", "a badge"),
        ("Do me a favour and file it, would you?", "file it"),
        ("Make sure I file it, please remind me", "file it"),
        ("Please see to it that I don't forget to file it. Thanks a lot", "file it"),
    ],
)
def test_polite_words_are_no_part_of_an_order(text: str, bare_text: str) -> None:
    assert bare(text) == (bare_text, True)
    assert not asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "Do you know where it is?",
        "Can you remember the name?",
        "Could you tell me whether it rains?",
        "Should I file it?",
    ],
)
def test_a_question_is_no_polite_order(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("She is called Ms Rautio.", ["Ms Rautio"]),
        ("A badge made out to Lord Penhaligon", ["Lord Penhaligon"]),
        ("The name is Kasimir Lund, the other is Bo", ["Kasimir Lund"]),
        ("She goes by Poppy Tran", ["Poppy Tran"]),
        ("Anna Berg", []),
    ],
)
def test_a_name_is_introduced(text: str, found: list[str]) -> None:
    assert introduced(text) == found


@pytest.mark.parametrize("text", ["Front desk", "He waits at the Front Desk"])
def test_a_place_is_no_name(text: str) -> None:
    assert names(text, frozenset(map(stem, ["waits"]))) == []


def test_words_with_other_endings_have_one_stem() -> None:
    assert stem("filed") == stem("files") == stem("file") == stem("Filing")
    assert stem("mum's") == stem("mum")

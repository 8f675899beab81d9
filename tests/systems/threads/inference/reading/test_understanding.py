"""What the embedded model does with a request, for the capabilities of the examples: one table."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from bench.judge_requests import catalog
from interlock.systems.threads.inference.question import Target
from interlock.systems.threads.inference.reading.doubts import DoubtKind
from interlock.systems.threads.inference.reading.meaning import meanings
from interlock.systems.threads.inference.reading.understanding import (
    NOT_UNDERSTOOD_MAX,
    SURE_MAX,
    UNUSED_MAX,
    Understanding,
    understand,
)
from tests.systems.threads.inference.questions import question

# A Tuesday.
AT = "2026-03-10T09:00:00+01:00"
FLOOR = 0.6
SATURDAY = "2026-03-14"
LAWN = {"title": "Mow the lawn", "due": SATURDAY}
IDA = {"text": "Ida calls at six"}
PLANS = {"path": "tray/a.pdf", "folder": "plans"}
GALA = {"title": "Gala", "start": "2026-03-13T19:00:00"}


@cache
def understood(title: str, text: str = "") -> Understanding:
    inciting = {"title": title, "text": text, "at": AT}
    asked = question(Target.COMBINED, inciting=inciting, items=(), catalog=catalog())
    return understand(asked, meanings())


@pytest.mark.parametrize(
    ("title", "text", "capability", "parameters"),
    [
        ("Buy milk", "", "add_task", {"title": "Buy milk"}),
        (
            "Please feed the cat on Sunday, thanks!",
            "",
            "add_task",
            {"title": "Feed the cat", "due": "2026-03-15"},
        ),
        (
            "remind me tomorrow to water the plants",
            "",
            "add_task",
            {"title": "Water the plants", "due": "2026-03-11"},
        ),
        ("Put 'order toner' on my to-do list", "", "add_task", {"title": "Order toner"}),
        (
            "Cancel the paper",
            "Put it on my list, please.",
            "add_task",
            {"title": "Cancel the paper"},
        ),
        ("Don't let me forget to sign the form", "", "add_task", {"title": "Sign the form"}),
        (
            "Pick up the dry cleaning tomorrow",
            "It's the shop on Bridge Road, they close at six.",
            "add_task",
            {
                "title": "Pick up the dry cleaning",
                "due": "2026-03-11",
                "details": "It's the shop on Bridge Road, they close at six.",
            },
        ),
        (
            "Note that the lift does not stop on floor 2",
            "",
            "append_note",
            {"text": "The lift does not stop on floor 2"},
        ),
        (
            "Note to self",
            "I already paid the rent.",
            "append_note",
            {"text": "I already paid the rent"},
        ),
        (
            "Wi-Fi",
            "It is bluewhale22 now. Can you put that in my notes?",
            "append_note",
            {"text": "Wi-Fi: It is bluewhale22 now."},
        ),
        (
            "Write down what we agreed",
            "- The site is switched off.\n- No more meetings.",
            "append_note",
            {"text": "What we agreed:\n- The site is switched off\n- No more meetings"},
        ),
        (
            "Dentist on Tuesday 17 March at 10:30",
            "Dr Salman can see me then, in Mill Street. Put it on the calendar, half an hour.",
            "add_appointment",
            {
                "title": "Dentist",
                "start": "2026-03-17T10:30:00",
                "duration_min": 30,
                "details": "Dr Salman can see me then, in Mill Street.",
            },
        ),
        (
            "Board meeting, Monday, 14:00-16:30, room Cedar",
            "",
            "add_appointment",
            {
                "title": "Board meeting, room Cedar",
                "start": "2026-03-16T14:00:00",
                "duration_min": 150,
            },
        ),
        (
            "🎂 party on Saturday at 3pm, put it in the calendar",
            "",
            "add_appointment",
            {"title": "🎂 party", "start": "2026-03-14T15:00:00"},
        ),
        (
            "File tray/a.pdf under tax papers, please",
            "",
            "file_document",
            {"path": "tray/a.pdf", "folder": "tax papers"},
        ),
        (
            "Can you put tray/a.pdf away? Folder: contracts",
            "",
            "file_document",
            {"path": "tray/a.pdf", "folder": "contracts"},
        ),
        ("Print a visitor badge for Mr Okafor", "", "print_badge", {"name": "Mr Okafor"}),
        ("I need a badge for Mrs van der Berg", "", "print_badge", {"name": "Mrs van der Berg"}),
        ("Print a badge that says 'Reception'", "", "print_badge", {"name": "Reception"}),
        ("Count the words of this poem", "I did not go.", "word_count", {"text": "I did not go."}),
        (
            "words",
            "Please count the words in this: Call me. Do not file it.",
            "word_count",
            {"text": "Call me. Do not file it."},
        ),
        (
            "wordcount",
            "How many words does the notice have?\n\nPlease move your car.",
            "word_count",
            {"text": "Please move your car."},
        ),
        ("Might I have a badge made out to Lord Pole?", "", "print_badge", {"name": "Lord Pole"}),
        ("Could I have the gala in my calendar, Friday 7 pm?", "", "add_appointment", GALA),
        ("I need to write down that Ida calls at six", "", "append_note", IDA),
        (
            "I need to write down that Rosalind prefers calls after six",
            "",
            "append_note",
            {"text": "Rosalind prefers calls after six"},
        ),
        ("Mow the lawn on Saturday", "", "add_task", {"title": "Mow the lawn", "due": SATURDAY}),
        ("Errand for Saturday: mow the lawn", "", "add_task", LAWN),
        ("New in the notes, please: Ida calls at six", "", "append_note", IDA),
        (
            "Wake on Friday",
            "At two o'clock in the afternoon, until five.\nI'd be glad if you put it in the diary.",
            "add_appointment",
            {
                "title": "Wake",
                "start": "2026-03-13T14:00:00",
                "duration_min": 180,
            },
        ),
        (
            "tray/2026-04-30-a.pdf -> pay slips",
            "File it, please.",
            "file_document",
            {"path": "tray/2026-04-30-a.pdf", "folder": "pay slips"},
        ),
        ("Could tray/a.pdf be filed under plans?", "", "file_document", PLANS),
        ("Hi, could you write down that Ida calls at six? Thanks a lot", "", "append_note", IDA),
        (
            "Put the minutes of the tenants' meeting into the archive",
            "tray/saw.txt",
            "file_document",
            {"path": "tray/saw.txt"},
        ),
    ],
)
def test_a_plain_request_needs_nobody(
    title: str, text: str, capability: str, parameters: dict[str, Any]
) -> None:
    found = understood(title, text)

    assert (found.choice and found.choice.name, [str(one) for one in found.doubts]) == (
        capability,
        [],
    )
    assert found.filled is not None
    assert found.filled.parameters == parameters
    assert FLOOR <= found.of_action <= found.of_intent <= SURE_MAX
    assert found.unused == ()


@pytest.mark.parametrize(
    ("title", "text", "why", "named"),
    [
        ("Please do not file tray/a.pdf away", "", DoubtKind.NEGATION, "not file"),
        (
            "Print a badge for Ms Lind",
            "On second thought, wait until she confirms.",
            DoubtKind.NEGATION,
            "On second thought",
        ),
        (
            "I will not be able to meet Anna on Tuesday at 14:00",
            "",
            DoubtKind.NEGATION,
            "not be able",
        ),
        ("Print a badge for Ms Lind", "It is no longer needed.", DoubtKind.NEGATION, "no longer"),
        ("Take care of it", "", DoubtKind.UNCLEAR, "it"),
        ("Make lunch on Friday at 12:30 an hour longer", "", DoubtKind.UNABLE, "longer"),
        ("Water the plants?", "Not necessary any more.", DoubtKind.NEGATION, "Not necessary"),
        ("Water the plants", "Lena is doing it.", DoubtKind.NEGATION, "doing it"),
        (
            "Under no circumstances print a badge for Mr Okafor",
            "",
            DoubtKind.NEGATION,
            "no circumstances",
        ),
        ("I already bought milk", "", DoubtKind.PAST, "already"),
        ("We had lunch with Carla on Thursday at 12:30", "", DoubtKind.PAST, "We had"),
        ("Invoice", "I filed tray/a.pdf this morning.", DoubtKind.PAST, "I filed"),
        ("Call the plumber about the tap", "I called him already.", DoubtKind.PAST, "already"),
        ("Was my meeting on Monday at 10:00 cancelled?", "", DoubtKind.QUESTION, "Was my meeting"),
        ("Can you tell me where tray/a.pdf is?", "", DoubtKind.QUESTION, "where"),
        ("when is the dentist appointment", "", DoubtKind.QUESTION, "when"),
        ("Delete the note about the wifi password", "", DoubtKind.UNABLE, "Delete"),
        ("Move the dentist to 12 March at 9:00", "", DoubtKind.UNABLE, "Move"),
        ("Take 'buy milk' off my list", "", DoubtKind.UNABLE, "off"),
        ("Collect the badge from Mr Okafor", "", DoubtKind.UNABLE, "Collect"),
        ("Call me a cab for 20:00 tonight", "", DoubtKind.UNABLE, "Call me a"),
        ("May I have visitors on Sunday at 15:00?", "", DoubtKind.QUESTION, "May I have"),
        ("Filed tray/a.pdf under plans", "", DoubtKind.PAST, "Filed"),
        ("Thanks for filing tray/a.pdf", "", DoubtKind.PAST, "Thanks for filing"),
        (
            "Badge for Mr Ito, and his visit goes in the calendar, Friday 10 am",
            "",
            DoubtKind.SEVERAL,
            "Badge for Mr Ito",
        ),
        ("Note that Mr Ito comes and get him a badge", "", DoubtKind.SEVERAL, "get him a badge"),
        ("Lunch with Tom on Friday at 12:30 has been moved", "", DoubtKind.PAST, "been moved"),
        ("Mr Okafor has lost his badge", "", DoubtKind.STATES, "has lost"),
        ("printer", "", DoubtKind.STATES, "printer"),
        (
            "If it rains, put lunch with Tom on Friday at 12:30 in the calendar",
            "",
            DoubtKind.CONDITION,
            "If it rains",
        ),
        ("Print a badge for Tom like last time", "", DoubtKind.UNCLEAR, "like last time"),
        ("Print badges for Mr Okafor and Ms Lind", "", DoubtKind.SEVERAL, "Ms Lind"),
        ("File tray/a.pdf and tray/b.pdf", "", DoubtKind.SEVERAL, "tray/b.pdf"),
        (
            "Dentist on Tuesday at 10:30 and haircut on Thursday at 17:15",
            "",
            DoubtKind.SEVERAL,
            "17:15",
        ),
        ("Email Tom the minutes and note that I did", "", DoubtKind.SEVERAL, "Email Tom"),
        ("Erinnere mich am Freitag daran, die Miete zu überweisen", "", DoubtKind.LANGUAGE, "de"),
        (
            "Dentist",
            "Rendez-vous mardi chez le dentiste, à dix heures et demie.",
            DoubtKind.LANGUAGE,
            "fr",
        ),
        (
            "meeting minutes",
            "We talked about the budget on Monday. " * 550,
            DoubtKind.LONG,
            "4,000",
        ),
    ],
)
def test_what_may_not_be_wanted_is_asked_about(
    title: str, text: str, why: DoubtKind, named: str
) -> None:
    found = understood(title, text)

    assert found.choice is None
    assert why in [one.why for one in found.doubts]
    assert any(named.lower() in one.said.lower() for one in found.doubts if one.why is why)
    assert found.of_intent <= NOT_UNDERSTOOD_MAX
    assert found.of_action <= NOT_UNDERSTOOD_MAX


@pytest.mark.parametrize(
    ("title", "text", "capability", "unused"),
    [
        (
            "Print a badge for Mr Okafor in red, two copies",
            "",
            "print_badge",
            ("red", "two", "copies"),
        ),
        (
            "Print a badge for Mr Okafor, valid until Friday",
            "",
            "print_badge",
            ("until Friday", "valid"),
        ),
        ("Could you make a badge for Ms O'Neill of Hartmann?", "", "print_badge", ("Hartmann",)),
        ("File tray/bill.pdf with the other bills", "", "file_document", ("other", "bills")),
        ("Shred the document tray/a.pdf", "", "file_document", ("Shred",)),
        ("File tray/a.pdf under bills tomorrow", "", "file_document", ("tomorrow",)),
        ("Yoga every Tuesday at 18:00", "", "add_appointment", ("every",)),
        ("Lunch with Tom on Friday at 14:00 London time", "", "add_appointment", ("London time",)),
        (
            "Dentist on Wednesday 10 March at 10:30",
            "",
            "add_appointment",
            ("on Wednesday 10 March",),
        ),
        ("Fix the tap by the end of next week", "", "add_task", ("by the end of next week",)),
        ("Add milk to my list with high priority", "", "add_task", ("high priority",)),
        ("Physio on Friday at noon for three weeks", "", "add_appointment", ("for three weeks",)),
        ("Add milk, then tea to my list", "", "add_task", ("then",)),
        ("File tray/a.pdf in the folder", "", "file_document", ("folder",)),
        ("Don't forget: his wife is called Ines", "", "add_task", ("his", "wife")),
        ("Put tray/a.pdf to rest in the archive", "", "file_document", ("rest",)),
        ("Put 'buy milk' on Anna's list", "", "add_task", ("list",)),
        ("Add Anna to the meeting on Friday at 14:00", "", "add_appointment", ("Add",)),
        (
            "Buy milk",
            "Ask me before you decide anything.",
            "add_task",
            ("Ask me before you decide anything.",),
        ),
    ],
)
def test_what_was_not_used_is_named_and_asks_a_person(
    title: str, text: str, capability: str, unused: tuple[str, ...]
) -> None:
    found = understood(title, text)

    assert (found.choice and found.choice.name, found.doubts) == (capability, ())
    assert found.unused == unused
    assert all(f"'{word}'" in found.not_used for word in unused)
    assert found.of_action <= UNUSED_MAX < FLOOR <= found.of_intent


@pytest.mark.parametrize(
    ("title", "text", "name"),
    [
        ("Reception", "The auditor is here, a Mr Ito. He needs a badge.", "Mr Ito"),
        ("Front desk", "She is called Ms Rautio. Please print a badge for her.", "Ms Rautio"),
        ("Intern starting today", "She's called Ida Lund. A badge for her, please.", "Ida Lund"),
        ("Print a badge for Lt. Col. Barnes", "", "Lt. Col. Barnes"),
    ],
)
def test_a_badge_has_the_name_and_no_word_of_a_title(title: str, text: str, name: str) -> None:
    filled = understood(title, text).filled

    assert filled is not None
    assert filled.parameters == {"name": name}


def test_words_that_only_explain_cost_little() -> None:
    said = "He comes at eleven and should not have to wait at the door."
    found = understood("Print a visitor badge for Mr Okafor", said)

    assert found.not_used == f"I did not use: '{said}'"
    assert FLOOR < found.of_action < understood("Print a visitor badge for Mr Okafor").of_action


@pytest.mark.parametrize(
    ("title", "text", "children"),
    [
        ("buy milk and call Anna", "", ["Buy milk", "Call Anna"]),
        (
            "Put the dentist on Tuesday at 10:30 in the calendar and remind me to buy flowers",
            "",
            ["Put the dentist on Tuesday at 10:30 in the calendar", "Remind me to buy flowers"],
        ),
        (
            "Note that the alarm code is 6094, and remind me on Friday to tell Ida",
            "",
            ["Note that the alarm code is 6094", "Remind me on Friday to tell Ida"],
        ),
        (
            "Please add milk to my list",
            "And a badge for Mr Okafor, please.",
            ["Add milk to my list", "A badge for Mr Okafor"],
        ),
        (
            "Three things",
            "- Water the garden\n- Print a badge for Tom Fischer\n- Note that Ines has the key",
            ["Water the garden", "Print a badge for Tom Fischer", "Note that Ines has the key"],
        ),
    ],
)
def test_several_plain_wishes_are_split(title: str, text: str, children: list[str]) -> None:
    found = understood(title, text)

    assert found.choice is not None
    assert found.choice.name == "decompose"
    assert found.filled is not None
    titles = [child["title"] for child in found.filled.parameters["children"]]
    assert titles == children
    assert found.of_action >= FLOOR


@pytest.mark.parametrize(
    "title",
    [
        "buy milk and delete the note about the bins",
        "Note that Tom called and remind me to call him back",
    ],
)
def test_wishes_that_do_not_stand_alone_are_not_split(title: str) -> None:
    assert understood(title).choice is None

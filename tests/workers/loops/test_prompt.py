"""A prompt: its sections in order, and every mail whole in exactly one of a row of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.machines.loops.loop.payloads import (
    LETTERS_MAX,
    MAIL_LENGTH_MAX,
    PROMPT_LENGTH_MAX,
)
from interlock.kernel.machines.loops.loop.table import LOOP
from interlock.kernel.store.inboxes import Mail, position
from interlock.workers.loops.prompt import (
    SEEN_LENGTH_MAX,
    Composed,
    PromptLostError,
    Surroundings,
    compose,
    letter,
    read_prompt,
    store_prompt,
)

AROUND = Surroundings("/trees/owl", "interlock/agents/owl", " M log.txt\n", "abc12 begin\n")
NOON_MS = 1_800_000_000_000
OWN_MAX = 32_000


def data(**more: Any) -> dict[str, Any]:
    born = {"repo": "/r", "command": "work"}
    born |= {name: more.pop(name) for name in ("identity", "instructions") if name in more}
    return {**LOOP.birth(born), **more}


def mail(number: int, text: str = "", **said: Any) -> Mail:
    about = {"sender": "bat", "recipient": "owl", "kind": "message", "urgent": False}
    text = text or f"letter {number}"
    return Mail(f"{NOON_MS}-{number}", NOON_MS, {**about, "text": text, **said})


def made(
    mails: Sequence[Mail] = (),
    lost: Sequence[Mail] = (),
    around: Surroundings = AROUND,
    urgent: Sequence[Mail] = (),
    **more: Any,
) -> Composed:
    return compose("owl", data(**more), around=around, mail=mails, urgent=urgent, lost=lost)


def unread(mails: Sequence[Mail], claimed: str, ahead: Sequence[str]) -> list[Mail]:
    left = [one for one in mails if position(one.id) > position(claimed)]
    return [one for one in left if one.id not in ahead]


def row_of(mails: Sequence[Mail], *, page: int = 200, **more: Any) -> list[Composed]:
    """Return prompts, each with what the one before it left, until no mail waits."""
    row, upto, ahead = list[Composed](), "0-0", list[str]()
    while left := unread(mails, upto, ahead):
        urgent = [one for one in left[page:] if one.said["urgent"]][:page]
        row.append(made(left[:page], urgent=urgent, acknowledged=upto, ahead=ahead, **more))
        assert row[-1].letters, "who waits for ever"
        upto, ahead = row[-1].claimed, list(row[-1].ahead)
    return row


def test_a_prompt_says_who_what_where_which_session_and_what_came_in_this_order() -> None:
    prompt = made(
        [mail(1)],
        [mail(0, "read by who died")],
        identity=" You keep watch.\n",
        instructions="Look at the log.\n",
        session_seq=4,
        attempt=6,
        last={"outcome": "error", "detail": "it broke\n"},
    )

    assert prompt.text == (
        "# You are owl\n\nYou keep watch.\n\n"
        "# Your instructions\n\nLook at the log.\n\n"
        "# Where you are\n\nFolder: /trees/owl\nBranch: interlock/agents/owl\n"
        "Not committed:\n M log.txt\nLast commits:\nabc12 begin\n\n"
        "# Session 4, attempt 7\n\nThe session before ended with error: it broke\n\n"
        "# What the session before you had been sent\n\n"
        f"## message {NOON_MS}-0 from bat, 2027-01-15 08:00:00 UTC\n\nread by who died\n\n"
        "# Your mail (1)\n\n"
        f"## message {NOON_MS}-1 from bat, 2027-01-15 08:00:00 UTC\n\nletter 1"
    )
    assert (prompt.claimed, prompt.ahead) == (f"{NOON_MS}-1", ())
    assert prompt.letters == (f"{NOON_MS}-1",)


def test_what_there_is_nothing_of_is_no_section_and_claims_nothing() -> None:
    bare = Surroundings("/trees/owl", "b", "", "")

    prompt = made(around=bare, acknowledged="5-1")

    assert prompt.text == (
        "# You are owl\n\n# Where you are\n\nFolder: /trees/owl\nBranch: b\n"
        "Not committed:\nnothing\nLast commits:\nnone\n\n# Session 1, attempt 1"
    )
    assert (prompt.claimed, prompt.letters) == ("5-1", ())


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ({"outcome": "success"}, "The session before ended with success"),
        ({"outcome": "timeout", "detail": ""}, "The session before ended with timeout"),
        (
            {"outcome": "error", "detail": "no key", "interrupted": True},
            "The session before was interrupted, and ended with error: no key",
        ),
    ],
)
def test_a_prompt_says_how_the_session_before_ended(last: dict[str, Any], sentence: str) -> None:
    assert made(last=last).text.endswith(f"# Session 1, attempt 1\n\n{sentence}")


def test_a_letter_says_what_it_is_from_whom_and_what_it_belongs_to() -> None:
    whole = mail(3, "fire!", urgent=True, kind="task", thread="barn", reply_to="1-0")

    assert letter(whole) == (
        f"## urgent task {NOON_MS}-3 from bat, 2027-01-15 08:00:00 UTC\n"
        "Thread: barn\nIn reply to: 1-0\n\nfire!"
    )


def test_what_a_repository_shows_is_cut_and_so_is_a_last_word() -> None:
    long = "x" * (SEEN_LENGTH_MAX + 1)
    around = Surroundings("/t", "b", long, long.replace("x", "q"))

    text = made(around=around, last={"outcome": "error", "detail": long.replace("x", "z")}).text

    assert text.count("x") == text.count("q") == SEEN_LENGTH_MAX
    assert SEEN_LENGTH_MAX - 2 <= text.count("z") <= SEEN_LENGTH_MAX


def test_mail_is_given_oldest_first_and_what_does_not_fit_waits_for_the_next_prompt() -> None:
    mails = [mail(number, "x" * MAIL_LENGTH_MAX) for number in range(20)]

    first, *others = row_of(mails)

    assert first.letters == tuple(one.id for one in mails[:7])
    assert first.claimed == mails[6].id, "exactly the last that went in"
    assert "# Your mail (7)" in first.text
    at = [first.text.index(letter(one)) for one in mails[:7]]
    assert at == sorted(at)
    assert f"{mails[7].id} from" not in first.text
    assert others[0].text.index(letter(mails[7]))
    assert [len(one.letters) for one in others] == [7, 6]


def test_a_short_letter_does_not_overtake_a_long_one_that_waits() -> None:
    mails = [mail(number, "x" * MAIL_LENGTH_MAX) for number in range(8)]

    prompt = made([*mails, mail(8, "short")])

    assert prompt.claimed == mails[6].id
    assert f"{NOON_MS}-8 from" not in prompt.text


def test_beside_the_longest_of_everything_the_first_letter_is_there_and_whole() -> None:
    long = "w" * 4_000
    first = mail(1, "x" * MAIL_LENGTH_MAX, sender="s" * 200, thread="t" * 200, reply_to="r" * 200)

    prompt = made(
        [first],
        around=Surroundings(long, long, long, long),
        identity="i" * OWN_MAX,
        instructions="j" * OWN_MAX,
        last={"outcome": "error", "detail": "d" * 8_000, "interrupted": True},
    )

    assert prompt.claimed == first.id
    assert prompt.text.endswith(letter(first))


def test_even_a_letter_that_is_too_long_goes_in_as_the_first_and_is_cut() -> None:
    huge = mail(1, "x" * PROMPT_LENGTH_MAX)

    prompt = made([huge, mail(2)])

    assert (prompt.claimed, prompt.letters) == (huge.id, (huge.id,))
    assert len(prompt.text) == PROMPT_LENGTH_MAX


@pytest.mark.parametrize("lost", [(), (mail(0, "seen"),)], ids=["none lost", "one lost"])
def test_no_letter_that_is_claimed_is_cut_wherever_the_room_ends(lost: Sequence[Mail]) -> None:
    full = PROMPT_LENGTH_MAX - len(made([mail(1), mail(2, "y")], lost).text) + 1
    claimed = set()
    for length in range(full - 200, full + 5):
        last = mail(2, "y" * length)

        prompt = made([mail(1), last], lost)

        assert len(prompt.text) <= PROMPT_LENGTH_MAX
        assert (letter(last) in prompt.text) is (prompt.claimed == last.id), length
        claimed.add(prompt.claimed)
    assert len(claimed) == 2, "the room ends between the first length and the last"


def test_mail_of_a_lost_session_is_shown_again_but_neither_claimed_nor_before_new_mail() -> None:
    lost, fresh = [mail(1), mail(2)], [mail(3)]

    prompt = made(fresh, lost, acknowledged=lost[-1].id)

    again, _, own = prompt.text.partition("# Your mail (1)")
    assert all(letter(one) in again for one in lost)
    assert letter(fresh[0]) in own
    assert (prompt.claimed, prompt.letters) == (fresh[0].id, (fresh[0].id,))
    alone = made((), lost, acknowledged=lost[-1].id)
    assert (alone.claimed, alone.letters) == (lost[-1].id, ())
    assert letter(lost[0]) in alone.text


def test_of_lost_mail_the_newest_has_a_quarter_of_the_room_and_the_rest_is_counted() -> None:
    fresh = [mail(number, "x" * MAIL_LENGTH_MAX) for number in range(10, 18)]
    lost = [mail(1, "short"), mail(2, "y" * MAIL_LENGTH_MAX), mail(3, "z" * MAIL_LENGTH_MAX)]

    prompt = made(fresh, lost)

    assert letter(lost[2]) in prompt.text
    assert not any(f"{one.id} from" in prompt.text for one in lost[:2])
    assert "\n\n(2 older letters are left out.)\n\n" in prompt.text
    assert prompt.claimed == fresh[5].id, "new mail has the rest"
    assert len(prompt.text) <= PROMPT_LENGTH_MAX
    assert "left out" not in made(fresh, lost[:1]).text


def test_urgent_mail_goes_in_first_and_is_not_given_again_in_its_turn() -> None:
    mails = [mail(number, "x" * MAIL_LENGTH_MAX, urgent=number == 11) for number in range(12)]
    last = mail(99, "fire!", urgent=True)

    first = made(mails, urgent=[last])

    assert first.letters == tuple(one.id for one in (*mails[:6], mails[11], last))
    assert first.claimed == mails[5].id
    assert first.ahead == (mails[11].id, last.id)
    at = [first.text.index(letter(one)) for one in (mails[5], mails[11], last)]
    assert at == sorted(at), "in the order in which they came"
    left = unread([*mails, last], first.claimed, first.ahead)
    second = made(left, acknowledged=first.claimed, ahead=list(first.ahead))
    assert second.letters == tuple(one.id for one in mails[6:11])
    assert (second.claimed, second.ahead) == (mails[10].id, first.ahead)


def test_what_is_ahead_is_forgotten_when_its_turn_has_come() -> None:
    ahead = [mail(2).id, mail(9).id]

    prompt = made([mail(1), mail(3)], ahead=ahead)

    assert (prompt.claimed, prompt.ahead) == (mail(3).id, (mail(9).id,))


def test_a_flood_of_urgent_mail_before_long_mail_stays_what_a_record_takes() -> None:
    long = [mail(number, "x" * MAIL_LENGTH_MAX) for number in range(60)]
    flood = [mail(number, "fire! " * 20, urgent=True) for number in range(100, 1_000)]

    row = row_of([*long, *flood])

    assert max(len(prompt.ahead) for prompt in row) <= LETTERS_MAX
    assert sum(len(prompt.letters) for prompt in row) == len(long) + len(flood)


LENGTHS = st.integers(1, 200) | st.integers(1, MAIL_LENGTH_MAX)


@given(
    letters=st.lists(st.tuples(LENGTHS, st.booleans()), min_size=1, max_size=40),
    own=st.integers(0, OWN_MAX),
    lost=st.lists(LENGTHS, max_size=10),
    page=st.integers(1, 30),
)
def test_every_mail_is_whole_and_in_exactly_one_of_a_row_of_prompts(
    letters: list[tuple[int, bool]], own: int, lost: list[int], page: int
) -> None:
    mails = [mail(n, "x" * length, urgent=urgent) for n, (length, urgent) in enumerate(letters, 50)]
    before = [mail(n, "x" * length) for n, length in enumerate(lost)]

    row = row_of(mails, page=page, lost=before, identity="i" * own, instructions="j" * own)

    for one in mails:
        whole = [letter(one) in prompt.text for prompt in row]
        assert whole.count(True) == 1, one.id
        assert [one.id in prompt.letters for prompt in row] == whole
        assert [f"{one.id} from" in prompt.text for prompt in row] == whole
    assert mails[-1].id in (row[-1].claimed, *row[-1].ahead)
    assert all(len(prompt.text) <= PROMPT_LENGTH_MAX for prompt in row)
    pressing = [one.id for one in mails if one.said["urgent"]]
    assert set(pressing[:1]) <= set(row[0].letters), "urgent mail waits behind none"


# --- stored prompts ------------------------------------------------------------------------------


def test_a_prompt_is_read_as_it_was_stored_and_by_its_owner_alone(tmp_path: Path) -> None:
    text = "# You are owl\n\nGrüß Gott\n"
    name, digest = store_prompt(tmp_path / "owl", text)

    assert read_prompt(tmp_path / "owl", name, digest) == text
    assert (tmp_path / "owl" / name).stat().st_mode & 0o777 == 0o600


def test_a_prompt_that_is_stored_meanwhile_stands_beside_the_first(tmp_path: Path) -> None:
    stored = [store_prompt(tmp_path, text) for text in ("first", "second")]

    assert [read_prompt(tmp_path, *one) for one in stored] == ["first", "second"]


def test_a_prompt_that_is_gone_or_another_is_lost_and_is_named(tmp_path: Path) -> None:
    name, digest = store_prompt(tmp_path, "mend the barn")
    (tmp_path / name).write_text("burn the barn")
    with pytest.raises(PromptLostError, match="is not the one that was stored"):
        read_prompt(tmp_path, name, digest)

    (tmp_path / name).unlink()
    with pytest.raises(PromptLostError, match=f"{name} cannot be read: No such file"):
        read_prompt(tmp_path, name, digest)

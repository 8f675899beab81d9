"""A prompt has its sections in order; each message is whole in exactly one of several prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.store.inboxes import Mail
from interlock.systems.loops.machines.loop.data import LoopData
from interlock.systems.loops.machines.loop.limits import (
    LETTERS_MAX,
    MAIL_LENGTH_MAX,
    PROMPT_LENGTH_MAX,
)
from interlock.systems.loops.machines.loop.table import LOOP
from interlock.systems.loops.session_prompt import (
    WORKTREE_TEXT_LENGTH_MAX,
    ComposedPrompt,
    PromptLostError,
    WorktreeSummary,
    compose_prompt,
    read_prompt,
    rendered,
    store_prompt,
)

WORKTREE = WorktreeSummary("/trees/owl", "interlock/agents/owl", " M log.txt\n", "abc12 begin\n")
NOON_MS = 1_800_000_000_000
TEXT_LENGTH_MAX = 32_000


def record_data(**more: Any) -> LoopData:
    payload = {"repo": "/r", "command": "work"}
    payload |= {name: more.pop(name) for name in ("identity", "instructions") if name in more}
    return cast("LoopData", {**LOOP.initial_data(payload), **more})


def message(number: int, text: str = "", **fields: Any) -> Mail:
    defaults = {"sender": "bat", "recipient": "owl", "kind": "message", "urgent": False}
    text = text or f"message {number}"
    return Mail(f"{NOON_MS}-{number}", NOON_MS, {**defaults, "text": text, **fields})


def composed(
    messages: Sequence[Mail] = (),
    lost: Sequence[Mail] = (),
    worktree: WorktreeSummary = WORKTREE,
    urgent: Sequence[Mail] = (),
    **more: Any,
) -> ComposedPrompt:
    return compose_prompt(
        "owl", record_data(**more), worktree=worktree, mail=messages, urgent=urgent, lost=lost
    )


def unread(messages: Sequence[Mail], claimed: str, ahead: Sequence[str]) -> list[Mail]:
    left = [item for item in messages if Mail.order(item.id) > Mail.order(claimed)]
    return [item for item in left if item.id not in ahead]


def prompts_until_read(
    messages: Sequence[Mail], *, page: int = 200, **more: Any
) -> list[ComposedPrompt]:
    """Return prompts, each with the mail that the one before left, until all mail is read."""
    row, claimed, ahead = list[ComposedPrompt](), "0-0", list[str]()
    while left := unread(messages, claimed, ahead):
        urgent = [item for item in left[page:] if item.fields["urgent"]][:page]
        row.append(composed(left[:page], urgent=urgent, acknowledged=claimed, ahead=ahead, **more))
        assert row[-1].letters, "each prompt takes some mail"
        claimed, ahead = row[-1].claimed, list(row[-1].ahead)
    return row


def test_a_prompt_has_identity_instructions_worktree_session_and_mail_in_this_order() -> None:
    prompt = composed(
        [message(1)],
        [message(0, "given to a lost session")],
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
        f"## message {NOON_MS}-0 from bat, 2027-01-15 08:00:00 UTC\n\ngiven to a lost session\n\n"
        "# Your mail (1)\n\n"
        f"## message {NOON_MS}-1 from bat, 2027-01-15 08:00:00 UTC\n\nmessage 1"
    )
    assert (prompt.claimed, prompt.ahead) == (f"{NOON_MS}-1", ())
    assert prompt.letters == (f"{NOON_MS}-1",)


def test_an_empty_section_is_left_out_and_no_mail_claims_nothing() -> None:
    bare = WorktreeSummary("/trees/owl", "b", "", "")

    prompt = composed(worktree=bare, acknowledged="5-1")

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
    assert composed(last=last).text.endswith(f"# Session 1, attempt 1\n\n{sentence}")


def test_a_message_is_rendered_with_kind_sender_thread_and_reply() -> None:
    whole = message(3, "fire!", urgent=True, kind="task", thread="barn", reply_to="1-0")

    assert rendered(whole) == (
        f"## urgent task {NOON_MS}-3 from bat, 2027-01-15 08:00:00 UTC\n"
        "Thread: barn\nIn reply to: 1-0\n\nfire!"
    )


def test_long_output_of_git_and_a_long_error_are_cut() -> None:
    long = "x" * (WORKTREE_TEXT_LENGTH_MAX + 1)
    worktree = WorktreeSummary("/t", "b", long, long.replace("x", "q"))

    text = composed(
        worktree=worktree, last={"outcome": "error", "detail": long.replace("x", "z")}
    ).text

    assert text.count("x") == text.count("q") == WORKTREE_TEXT_LENGTH_MAX
    assert WORKTREE_TEXT_LENGTH_MAX - 2 <= text.count("z") <= WORKTREE_TEXT_LENGTH_MAX


def test_mail_is_given_oldest_first_and_the_rest_waits_for_the_next_prompt() -> None:
    messages = [message(number, "x" * MAIL_LENGTH_MAX) for number in range(20)]

    first, *others = prompts_until_read(messages)

    assert first.letters == tuple(item.id for item in messages[:7])
    assert first.claimed == messages[6].id, "the last message that went in"
    assert "# Your mail (7)" in first.text
    at = [first.text.index(rendered(item)) for item in messages[:7]]
    assert at == sorted(at)
    assert f"{messages[7].id} from" not in first.text
    assert others[0].text.index(rendered(messages[7]))
    assert [len(item.letters) for item in others] == [7, 6]


def test_a_short_message_does_not_overtake_a_long_one_that_waits() -> None:
    messages = [message(number, "x" * MAIL_LENGTH_MAX) for number in range(8)]

    prompt = composed([*messages, message(8, "short")])

    assert prompt.claimed == messages[6].id
    assert f"{NOON_MS}-8 from" not in prompt.text


def test_the_first_message_is_whole_beside_the_longest_of_every_other_section() -> None:
    long = "w" * 4_000
    first = message(
        1, "x" * MAIL_LENGTH_MAX, sender="s" * 200, thread="t" * 200, reply_to="r" * 200
    )

    prompt = composed(
        [first],
        worktree=WorktreeSummary(long, long, long, long),
        identity="i" * TEXT_LENGTH_MAX,
        instructions="j" * TEXT_LENGTH_MAX,
        last={"outcome": "error", "detail": "d" * 8_000, "interrupted": True},
    )

    assert prompt.claimed == first.id
    assert prompt.text.endswith(rendered(first))


def test_a_first_message_that_is_too_long_goes_in_and_is_cut() -> None:
    huge = message(1, "x" * PROMPT_LENGTH_MAX)

    prompt = composed([huge, message(2)])

    assert (prompt.claimed, prompt.letters) == (huge.id, (huge.id,))
    assert len(prompt.text) == PROMPT_LENGTH_MAX


@pytest.mark.parametrize("lost", [(), (message(0, "seen"),)], ids=["none lost", "one lost"])
def test_no_claimed_message_is_cut_wherever_the_room_ends(lost: Sequence[Mail]) -> None:
    full = PROMPT_LENGTH_MAX - len(composed([message(1), message(2, "y")], lost).text) + 1
    claimed = set()
    for length in range(full - 200, full + 5):
        last = message(2, "y" * length)

        prompt = composed([message(1), last], lost)

        assert len(prompt.text) <= PROMPT_LENGTH_MAX
        assert (rendered(last) in prompt.text) is (prompt.claimed == last.id), length
        claimed.add(prompt.claimed)
    assert len(claimed) == 2, "the room ends between the first length and the last"


def test_mail_of_a_lost_session_is_shown_again_and_neither_claimed_nor_put_into_new_mail() -> None:
    lost, new = [message(1), message(2)], [message(3)]

    prompt = composed(new, lost, acknowledged=lost[-1].id)

    again, _, mail = prompt.text.partition("# Your mail (1)")
    assert all(rendered(item) in again for item in lost)
    assert rendered(new[0]) in mail
    assert (prompt.claimed, prompt.letters) == (new[0].id, (new[0].id,))
    alone = composed((), lost, acknowledged=lost[-1].id)
    assert (alone.claimed, alone.letters) == (lost[-1].id, ())
    assert rendered(lost[0]) in alone.text


def test_the_newest_lost_mail_gets_a_quarter_of_the_room_and_the_rest_is_counted() -> None:
    new = [message(number, "x" * MAIL_LENGTH_MAX) for number in range(10, 18)]
    lost = [
        message(1, "short"),
        message(2, "y" * MAIL_LENGTH_MAX),
        message(3, "z" * MAIL_LENGTH_MAX),
    ]

    prompt = composed(new, lost)

    assert rendered(lost[2]) in prompt.text
    assert not any(f"{item.id} from" in prompt.text for item in lost[:2])
    assert "\n\n(2 older messages are left out.)\n\n" in prompt.text
    assert prompt.claimed == new[5].id, "new mail gets the rest"
    assert len(prompt.text) <= PROMPT_LENGTH_MAX
    assert "left out" not in composed(new, lost[:1]).text


def test_urgent_mail_goes_in_first_and_is_not_given_again_in_its_turn() -> None:
    messages = [message(number, "x" * MAIL_LENGTH_MAX, urgent=number == 11) for number in range(12)]
    last = message(99, "fire!", urgent=True)

    first = composed(messages, urgent=[last])

    assert first.letters == tuple(item.id for item in (*messages[:6], messages[11], last))
    assert first.claimed == messages[5].id
    assert first.ahead == (messages[11].id, last.id)
    at = [first.text.index(rendered(item)) for item in (messages[5], messages[11], last)]
    assert at == sorted(at), "in the order in which they came"
    left = unread([*messages, last], first.claimed, first.ahead)
    second = composed(left, acknowledged=first.claimed, ahead=list(first.ahead))
    assert second.letters == tuple(item.id for item in messages[6:11])
    assert (second.claimed, second.ahead) == (messages[10].id, first.ahead)


def test_an_id_ahead_is_forgotten_once_all_mail_before_it_is_claimed() -> None:
    ahead = [message(2).id, message(9).id]

    prompt = composed([message(1), message(3)], ahead=ahead)

    assert (prompt.claimed, prompt.ahead) == (message(3).id, (message(9).id,))


def test_a_flood_of_urgent_mail_never_exceeds_the_ids_that_a_record_takes() -> None:
    long = [message(number, "x" * MAIL_LENGTH_MAX) for number in range(60)]
    flood = [message(number, "fire! " * 20, urgent=True) for number in range(100, 1_000)]

    row = prompts_until_read([*long, *flood])

    assert max(len(prompt.ahead) for prompt in row) <= LETTERS_MAX
    assert sum(len(prompt.letters) for prompt in row) == len(long) + len(flood)


LENGTHS = st.integers(1, 200) | st.integers(1, MAIL_LENGTH_MAX)


@given(
    sizes=st.lists(st.tuples(LENGTHS, st.booleans()), min_size=1, max_size=40),
    text_length=st.integers(0, TEXT_LENGTH_MAX),
    lost=st.lists(LENGTHS, max_size=10),
    page=st.integers(1, 30),
)
def test_every_message_is_whole_in_exactly_one_of_consecutive_prompts(
    sizes: list[tuple[int, bool]], text_length: int, lost: list[int], page: int
) -> None:
    messages = [
        message(n, "x" * length, urgent=urgent) for n, (length, urgent) in enumerate(sizes, 50)
    ]
    before = [message(n, "x" * length) for n, length in enumerate(lost)]

    row = prompts_until_read(
        messages, page=page, lost=before, identity="i" * text_length, instructions="j" * text_length
    )

    for item in messages:
        whole = [rendered(item) in prompt.text for prompt in row]
        assert whole.count(True) == 1, item.id
        assert [item.id in prompt.letters for prompt in row] == whole
        assert [f"{item.id} from" in prompt.text for prompt in row] == whole
    assert messages[-1].id in (row[-1].claimed, *row[-1].ahead)
    assert all(len(prompt.text) <= PROMPT_LENGTH_MAX for prompt in row)
    urgent = [item.id for item in messages if item.fields["urgent"]]
    assert set(urgent[:1]) <= set(row[0].letters), "urgent mail waits behind nothing else"


def test_a_prompt_is_read_as_it_was_stored_and_by_its_owner_alone(tmp_path: Path) -> None:
    text = "# You are owl\n\nGrüß Gott\n"
    name, digest = store_prompt(tmp_path / "owl", text)

    assert read_prompt(tmp_path / "owl", name, digest) == text
    assert (tmp_path / "owl" / name).stat().st_mode & 0o777 == 0o600


def test_a_second_stored_prompt_does_not_replace_the_first(tmp_path: Path) -> None:
    stored = [store_prompt(tmp_path, text) for text in ("first", "second")]

    assert [read_prompt(tmp_path, *item) for item in stored] == ["first", "second"]


def test_a_prompt_that_is_missing_or_changed_is_reported_as_lost(tmp_path: Path) -> None:
    name, digest = store_prompt(tmp_path, "repair the barn")
    (tmp_path / name).write_text("burn the barn")
    with pytest.raises(PromptLostError, match="is not the one that was stored"):
        read_prompt(tmp_path, name, digest)

    (tmp_path / name).unlink()
    with pytest.raises(PromptLostError, match=f"{name} cannot be read: No such file"):
        read_prompt(tmp_path, name, digest)

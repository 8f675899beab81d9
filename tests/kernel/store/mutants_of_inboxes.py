"""Guards of inboxes, each with the test that misses it."""

from __future__ import annotations

from tests.kernel.store import test_inboxes as inboxes
from tests.kernel.store import test_inboxes_pruned as ends
from tests.kernel.store.mutant import Mutant

GOES = (
    "if redis.call('HLEN', KEYS[last - 4]) == 0 then "
    "redis.call('UNLINK', unpack(KEYS, last - 3)) end"
)
INBOXES: tuple[Mutant, ...] = (
    Mutant(
        "a post that is repeated is no second letter",
        "post",
        "if known then return {known[1], known[2], ''} end",
        "",
        inboxes.test_a_post_that_is_repeated_gets_the_first_ones_receipt_and_no_second_letter,
    ),
    Mutant(
        "a post is remembered",
        "post",
        "op_record(KEYS[3], KEYS[4], plan.op, plan.digest, mail, plan.window_ms)",
        "",
        inboxes.test_a_post_that_is_repeated_gets_the_first_ones_receipt_and_no_second_letter,
    ),
    Mutant(
        "nothing is posted to what has ended",
        "post",
        "if stands[3] == '1' then return {'ended', stands[4], ''} end",
        "",
        inboxes.test_what_has_ended_takes_no_mail_and_says_so,
    ),
    Mutant(
        "nothing is posted to nobody",
        "post",
        "if not stands[1] then return {'missing', '', ''} end",
        "stands[1] = stands[1] or '1'",
        inboxes.test_mail_to_what_was_forgotten_meanwhile_is_kept_nowhere,
    ),
    Mutant(
        "an inbox is bounded",
        "post",
        "if left >= plan.most then return {'full', whole(left), ''} end",
        "",
        inboxes.test_what_was_read_makes_room_and_what_was_not_is_never_thrown_away,
    ),
    Mutant(
        "what was not read stays",
        "post",
        "'MINID', plan.read",
        "'MAXLEN', plan.most - 1",
        inboxes.test_what_was_read_makes_room_and_what_was_not_is_never_thrown_away,
    ),
    Mutant(
        "mail owes one look",
        "post",
        "waiting = waiting or entry.name == plan.owed.name",
        "waiting = false and entry.name == plan.owed.name",
        inboxes.test_a_thousand_letters_are_one_look_until_somebody_looks,
    ),
    Mutant(
        "a look that has begun is not enough",
        "post",
        " and entry.state == 'owed'",
        "",
        inboxes.test_a_thousand_letters_are_one_look_until_somebody_looks,
    ),
    Mutant(
        "a look that waits after a failure is not enough",
        "post",
        " and entry.not_before <= now",
        "",
        inboxes.test_a_look_that_waits_after_a_failure_does_not_hold_up_what_comes,
    ),
    Mutant(
        "an interrupt goes along with what is carried",
        "commit",
        "if plan.interrupts then entry.posted = entry.posted + 1 end",
        "if plan.interrupts and stays then entry.posted = entry.posted + 1 end",
        inboxes.test_an_interrupt_reaches_who_holds_the_session_that_goes_on,
    ),
    Mutant(
        "a paused agent does not look",
        "post",
        "stands[2] == '1', plan.look_ms",
        "false, plan.look_ms",
        inboxes.test_a_paused_agent_is_posted_to_and_looks_when_it_goes_on,
    ),
    Mutant(
        "the inbox goes with the last",
        "prune",
        GOES,
        "",
        ends.test_the_inbox_goes_with_the_last_life_of_its_name_and_nothing_is_left,
    ),
    Mutant(
        "the inbox of who lives by now stays",
        "prune",
        GOES,
        "redis.call('UNLINK', unpack(KEYS, last - 3))",
        ends.test_the_inbox_stays_where_somebody_lives_again_by_now,
    ),
    Mutant(
        "what a name holds is not pruned with a life of it",
        "prune",
        "last = last - 5",
        "",
        ends.test_the_inbox_stays_where_somebody_lives_again_by_now,
    ),
)

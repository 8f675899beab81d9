"""Guards of inboxes, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_inboxes as inboxes
from tests.kernel.store import test_inboxes_pruned as ends
from tests.kernel.store.mutant import Mutant

INBOXES: tuple[Mutant, ...] = (
    Mutant(
        "mail is noted",
        "post",
        "write_note(log, version, 'mail', detail)",
        "",
        inboxes.test_a_thousand_letters_are_one_look_until_somebody_looks,
    ),
    Mutant(
        "a repeated post adds no second mail",
        "post",
        "if known then",
        "if false then",
        inboxes.test_a_post_that_is_repeated_gets_the_first_ones_receipt_and_no_second_letter,
    ),
    Mutant(
        "the op-id of a post is recorded",
        "post",
        "record_outcome(posts, post_times, plan.op_id, plan.digest, mail_id, plan.window_ms)",
        "",
        inboxes.test_a_post_that_is_repeated_gets_the_first_ones_receipt_and_no_second_letter,
    ),
    Mutant(
        "a record that has ended gets no mail",
        "post",
        "if ended == '1' then",
        "if false then",
        inboxes.test_what_has_ended_takes_no_mail_and_says_so,
    ),
    Mutant(
        "a record that does not exist gets no mail",
        "post",
        "if not version then",
        "version = version or '1'\nif false then",
        inboxes.test_mail_to_what_was_forgotten_meanwhile_is_kept_nowhere,
    ),
    Mutant(
        "an inbox has a limit",
        "post",
        "if length >= plan.length_max then",
        "if false then",
        inboxes.test_what_was_read_makes_room_and_what_was_not_is_never_thrown_away,
    ),
    Mutant(
        "mail that was not read stays",
        "post",
        "'MINID', plan.read_up_to",
        "'MAXLEN', plan.length_max - 1",
        inboxes.test_what_was_read_makes_room_and_what_was_not_is_never_thrown_away,
    ),
    Mutant(
        "mail creates one effect at a time",
        "post",
        "waiting = waiting or owed and",
        "waiting = false and owed and",
        inboxes.test_a_thousand_letters_are_one_look_until_somebody_looks,
    ),
    Mutant(
        "mail creates another effect beside one that has begun",
        "post",
        " and entry.state == 'owed'",
        "",
        inboxes.test_a_thousand_letters_are_one_look_until_somebody_looks,
    ),
    Mutant(
        "mail creates another effect beside one that waits after a failure",
        "post",
        " and entry.not_before <= now_ms",
        "",
        inboxes.test_a_look_that_waits_after_a_failure_does_not_hold_up_what_comes,
    ),
    Mutant(
        "an interrupt is posted to a carried effect, too",
        "commit",
        "entry.interrupts + 1",
        "entry.interrupts + (internal and 1 or 0)",
        inboxes.test_an_interrupt_reaches_who_holds_the_session_that_goes_on,
    ),
    Mutant(
        "mail to a paused record creates an effect outside the index",
        "post",
        "paused = paused == '1',",
        "paused = false,",
        inboxes.test_a_paused_agent_is_posted_to_and_looks_when_it_goes_on,
    ),
    Mutant(
        "the inbox is deleted with the last record of its family",
        "prune",
        "if redis.call('HLEN', holds) == 0 then",
        "if false then",
        ends.test_the_inbox_goes_with_the_last_life_of_its_name_and_nothing_is_left,
    ),
    Mutant(
        "the inbox stays where the family lives again",
        "prune",
        "if redis.call('HLEN', holds) == 0 then",
        "if true then",
        ends.test_the_inbox_stays_where_somebody_lives_again_by_now,
    ),
    Mutant(
        "what a family shares is deleted only where the family is gone",
        "prune",
        "keys_at(12, last and 5 or 0)",
        "keys_at(12, last and 5 or 0), 12",
        ends.test_the_inbox_stays_where_somebody_lives_again_by_now,
    ),
)

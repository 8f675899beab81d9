"""Guards of what a family shares, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_shares as shares
from tests.kernel.store.mutant import Mutant, Scenario


def held(one: str, two: str, *, refused: bool) -> Scenario:
    """Return the test of names with these two."""
    test = shares.test_a_name_is_held_by_one_with_all_that_is_below_it
    return lambda world: test(world, one, two, refused=refused)


SHARES = (
    Mutant(
        "an offer ends",
        "commit",
        "    and now_ms < waiting.offered + OFFER_MS",
        "",
        shares.test_who_does_not_come_for_an_offered_name_loses_its_place,
    ),
    Mutant(
        "a clock that is set back ends an offer",
        "commit",
        "    and waiting.offered <= now_ms",
        "",
        shares.test_an_offer_from_before_the_clock_was_set_back_keeps_nobody_from_a_name,
    ),
    Mutant(
        "a name that is free by now is tried at once",
        "release",
        "      due_at = now_ms\n",
        "",
        shares.test_a_name_that_became_free_meanwhile_is_tried_at_once,
    ),
    Mutant(
        "a held name covers the names below it",
        "commit",
        "or string.sub(name, 1, #other + 1) == other .. '/'",
        "",
        held("src/a.py", "src", refused=True),
    ),
    Mutant(
        "a name above a held name is covered",
        "commit",
        "or string.sub(other, 1, #name + 1) == name .. '/'",
        "",
        held("src", "src/a.py", refused=True),
    ),
    Mutant(
        "a name is no prefix",
        "commit",
        "string.sub(other, 1, #name + 1) == name .. '/'",
        "string.sub(other, 1, #name) == name",
        held("src/a", "src/ab", refused=False),
    ),
    Mutant(
        "names are taken",
        "commit",
        "for _, name in ipairs(shares.takes) do",
        "for _, name in ipairs({}) do",
        shares.test_names_are_kept_from_state_to_state_and_freed_with_the_last,
    ),
    Mutant(
        "names are freed",
        "commit",
        "for _, name in ipairs(shares.frees) do",
        "for _, name in ipairs({}) do",
        shares.test_names_are_kept_from_state_to_state_and_freed_with_the_last,
    ),
    Mutant(
        "a record that is taken leaves the queue",
        "commit",
        "redis.call('ZREM', left_queue, id)",
        "1",
        shares.test_a_line_has_a_name_and_is_forgotten_when_it_is_empty,
    ),
    Mutant(
        "a queue is ordered by priority",
        "create",
        "tonumber(priority) * 1e13 + ",
        "",
        shares.test_records_stand_in_line_by_priority_then_age,
    ),
    Mutant(
        "a queue is ordered by age",
        "commit",
        "tonumber(created)",
        "now_ms",
        shares.test_who_comes_back_keeps_its_age,
    ),
    Mutant(
        "a commit leases the effect of the state at once",
        "commit",
        "plan.leased_at and not owner.paused",
        "false",
        shares.test_who_takes_holds_the_work_before_anybody_hears_of_it,
    ),
    Mutant(
        "a paused record can do without a lease that is optional",
        "commit",
        "if paused and not plan.lease_optional then",
        "if paused then",
        shares.test_a_paused_record_is_not_given_a_lease_that_it_can_do_without,
    ),
    Mutant(
        "a paused record is given no lease",
        "commit",
        "plan.leased_at and not owner.paused",
        "plan.leased_at",
        shares.test_a_paused_record_is_not_given_a_lease_that_it_can_do_without,
    ),
    Mutant(
        "a message is pushed for the effect that it is about",
        "commit",
        "used = has_message and used + 1 or used",
        "used = n",
        shares.test_the_message_of_another_effect_is_pushed_beside_a_lease,
    ),
)

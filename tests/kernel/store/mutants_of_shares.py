"""Guards of what a family shares, each with the test that misses it when it is gone."""

from __future__ import annotations

from tests.kernel.store import test_shares as shares
from tests.kernel.store.mutant import Mutant, Scenario


def held(one: str, two: str, *, refused: bool) -> Scenario:
    """Return the test of names with these two."""
    test = shares.test_a_name_is_held_by_one_with_all_that_is_below_it
    return lambda world: test(world, one, two, refused=refused)


SHARES = (
    Mutant(
        "a name is held by one",
        "commit",
        "if other then return {'held', other} end",
        "",
        held("src/a.py", "src/a.py", refused=True),
    ),
    Mutant(
        "a name holds what is below it",
        "commit",
        "or string.sub(one, 1, #other + 1) == other .. '/'",
        "",
        held("src/a.py", "src", refused=True),
    ),
    Mutant(
        "what is below a name holds it",
        "commit",
        "or string.sub(other, 1, #one + 1) == one .. '/'",
        "",
        held("src", "src/a.py", refused=True),
    ),
    Mutant(
        "a name is no prefix",
        "commit",
        "string.sub(other, 1, #one + 1) == one .. '/'",
        "string.sub(other, 1, #one) == one",
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
        "a birth needs its names, too",
        "create",
        "if other then return {'held', other, '0'} end",
        "",
        shares.test_a_record_that_needs_a_held_name_is_not_born,
    ),
    Mutant(
        "who is taken leaves the line",
        "commit",
        "redis.call('ZREM', keys[2], id)",
        "",
        shares.test_a_line_has_a_name_and_is_forgotten_when_it_is_empty,
    ),
    Mutant(
        "an empty line is forgotten",
        "commit",
        "redis.call('SREM', keys[4], shares.left)",
        "",
        shares.test_a_line_has_a_name_and_is_forgotten_when_it_is_empty,
    ),
    Mutant(
        "a line goes by priority",
        "create",
        "tonumber(stands[1]) * 1e13 + ",
        "",
        shares.test_records_stand_in_line_by_priority_then_age,
    ),
    Mutant(
        "a line goes by age",
        "commit",
        "tonumber(stands[2])), id)",
        "now), id)",
        shares.test_who_comes_back_keeps_its_age,
    ),
    Mutant(
        "who takes holds the work",
        "commit",
        "if leased then grant_owed",
        "if false then grant_owed",
        shares.test_who_takes_holds_the_work_before_anybody_hears_of_it,
    ),
    Mutant(
        "nobody hears of what is held",
        "commit",
        "not held and KEYS[queues + n]",
        "KEYS[queues + n]",
        shares.test_who_takes_holds_the_work_before_anybody_hears_of_it,
    ),
    Mutant(
        "a maker holds what it bears",
        "create",
        "if held then grant_owed",
        "if false then grant_owed",
        shares.test_a_record_can_be_born_in_the_hands_of_its_maker,
    ),
    Mutant(
        "nothing is taken under pause",
        "commit",
        "if redis.call('HGET', record, 'paused') == '1' then return {'paused', ''} end",
        "",
        shares.test_nobody_takes_what_is_paused,
    ),
    Mutant(
        "a place is not taken while somebody may be in it",
        "commit",
        "return taken and {'busy', whole(taken)} or nil",
        "return nil",
        shares.test_nobody_takes_a_place_that_somebody_may_still_be_in,
    ),
)

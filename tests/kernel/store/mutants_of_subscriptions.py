"""Guards of subscriptions, slots, limits and inboxes, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_inboxes as inboxes
from tests.kernel.store import test_nodes as nodes
from tests.kernel.store import test_slots as slots
from tests.kernel.store import test_subscriptions as tells
from tests.kernel.store.mutant import Mutant

TELLS: tuple[Mutant, ...] = (
    Mutant(
        "a subscriber that comes after the end is not kept",
        "subscribe",
        "if ended == '1' then",
        "redis.call('SADD', subscribers, plan.subscriber)\nif ended == '1' then",
        tells.test_who_registers_after_the_end_is_told_at_once_and_kept_nowhere,
    ),
    Mutant(
        "a subscriber that comes before the end is kept",
        "subscribe",
        "redis.call('SADD', subscribers, plan.subscriber)\nredis.call('PERSIST', subscribers)",
        "",
        tells.test_who_registers_before_the_end_is_kept_until_after_it,
    ),
    Mutant(
        "nobody subscribes to a record that does not exist",
        "subscribe",
        "if not state then",
        "state = state or ''\nif false then",
        tells.test_who_registers_with_nobody_is_told_so_and_leaves_no_trace,
    ),
    Mutant(
        "no member joins a record that has ended",
        "join_countdown",
        "if ended or",
        "if",
        tells.test_nobody_joins_a_record_that_ended_although_the_placeholder_is_in,
    ),
    Mutant(
        "no member joins after the placeholder has left",
        "join_countdown",
        " or redis.call('SISMEMBER', members, '*') == 0",
        "",
        tells.test_who_joins_is_counted_while_the_placeholder_is_in,
    ),
    Mutant(
        "every member of a page joins",
        "join_countdown",
        "unpack(plan.joining)",
        "plan.joining[1]",
        tells.test_more_join_than_fit_on_a_page,
    ),
    Mutant(
        "a member leaves once",
        "leave_countdown",
        "if redis.call('SREM', members, member) == 0 then",
        "if redis.call('SREM', members, member) == 2 then",
        tells.test_a_repeated_departure_and_one_of_a_stranger_change_nothing,
    ),
    Mutant(
        "a record of another family that has ended gets no advance",
        "leave_countdown",
        "if not state or ended == '1' then",
        "if not state then",
        tells.test_nobody_waits_any_more_who_has_ended,
    ),
    Mutant(
        "the advance of a paused record is not in the index",
        "leave_countdown",
        "paused = paused == '1',",
        "paused = false,",
        tells.test_a_paused_record_is_advanced_when_it_goes_on,
    ),
    Mutant(
        "subscribers are deleted with the record",
        "prune",
        "for _, key in ipairs(own) do",
        "for _, key in ipairs({unpack(own, 1, 5)}) do",
        tells.test_who_is_still_to_be_told_keeps_an_ended_record_and_goes_with_it,
    ),
)
SLOTS: tuple[Mutant, ...] = (
    Mutant(
        "no more than the limit",
        "acquire_slot",
        "while limit == 0 or redis.call('ZCARD', holders) < limit do",
        "while true do",
        slots.test_as_many_hold_a_slot_as_there_are_and_the_others_stand_in_line,
    ),
    Mutant(
        "no more than the limit in a race",
        "release_slot",
        "while limit == 0 or redis.call('ZCARD', holders) < limit do",
        "while true do",
        slots.test_sixteen_that_race_for_three_slots_are_never_more_than_three,
    ),
    Mutant(
        "a limit of 0 is none",
        "acquire_slot",
        "limit == 0 or ",
        "",
        slots.test_without_a_limit_everybody_has_a_slot,
    ),
    Mutant(
        "a limit that is lifted frees slots",
        "release_slot",
        "limit == 0 or ",
        "",
        slots.test_a_raised_limit_is_handed_out_without_anybody_leaving,
    ),
    Mutant(
        "an empty queue ends the offers",
        "release_slot",
        "if #first == 0 then\n      return\n    end",
        "",
        slots.test_names_that_nobody_uses_leave_nothing_behind,
    ),
    Mutant(
        "a repeat keeps the place in the queue",
        "acquire_slot",
        "queue, 'NX', plan.score",
        "queue, plan.score",
        slots.test_whoever_came_first_keeps_its_place_when_it_asks_again,
    ),
    Mutant(
        "asking for a slot returns the holders to wake",
        "acquire_slot",
        "unpack(holders_to_wake(holders, reports, plan.call_id))",
        "nil",
        slots.test_whoever_asks_hears_of_others_that_were_given_a_slot,
    ),
    Mutant(
        "the first in the queue is next",
        "release_slot",
        "'ZPOPMIN'",
        "'ZPOPMAX'",
        slots.test_a_slot_that_is_given_back_goes_by_priority_then_age,
    ),
    Mutant(
        "an offered slot is not taken yet",
        "release_slot",
        "redis.call('ZADD', holders, '0', first[1])",
        "redis.call('ZADD', holders, now_ms, first[1])",
        slots.test_who_is_given_a_slot_is_rung_once_and_again_while_it_is_not_heard,
    ),
    Mutant(
        "a holder is not woken twice in a row",
        "release_slot",
        "redis.call('ZADD', holders, -now_ms, id)",
        "redis.call('ZADD', holders, '0', id)",
        slots.test_who_is_given_a_slot_is_rung_once_and_again_while_it_is_not_heard,
    ),
    Mutant(
        "a holder that did not take its slot is woken again",
        "release_slot",
        "local lately = REPORTED_AGAIN_MS - now_ms",
        "local lately = '0'",
        slots.test_who_is_given_a_slot_is_rung_once_and_again_while_it_is_not_heard,
    ),
    Mutant(
        "a holder has time to take its slot",
        "release_slot",
        "local lately = REPORTED_AGAIN_MS - now_ms",
        "local lately = -now_ms",
        slots.test_who_is_given_a_slot_is_rung_once_and_again_while_it_is_not_heard,
    ),
    Mutant(
        "a holder that took its slot is not woken",
        "release_slot",
        "lately, '0',",
        "lately, now_ms,",
        slots.test_who_takes_a_slot_itself_need_not_be_rung,
    ),
    Mutant(
        "a limited number of holders is woken at a time",
        "release_slot",
        "'LIMIT', 0, 100",
        "'LIMIT', 0, 1000",
        slots.test_so_many_are_rung_at_a_time,
    ),
)
SUMS: tuple[Mutant, ...] = (
    Mutant(
        "a row may change a cap",
        "commit",
        "in pairs(caps or {}) do",
        "in pairs({}) do",
        nodes.test_a_row_that_caps_changes_what_may_be_spent_from_then_on,
    ),
)
RUNS: tuple[Mutant, ...] = (
    Mutant(
        "a commit that counts no runs is not refused",
        "commit",
        "if runs > 0 and lacks_runs(keys.chain, runs) then",
        "if lacks_runs(keys.chain, runs) then",
        nodes.test_a_bound_below_what_is_used_lets_nothing_begin_and_all_else_go_on,
    ),
    Mutant(
        "the limits of runs of the whole chain are tested",
        "commit",
        "in ipairs(chain) do\n    local runs_max",
        "in ipairs({chain[1]}) do\n    local runs_max",
        nodes.test_whichever_of_the_chain_has_the_fewest_runs_left_is_what_binds,
    ),
    Mutant(
        "the limit of runs of the record itself is tested",
        "commit",
        "in ipairs(chain) do\n    local runs_max",
        "in ipairs({unpack(chain, 2)}) do\n    local runs_max",
        nodes.test_whichever_of_the_chain_has_the_fewest_runs_left_is_what_binds,
    ),
    Mutant(
        "all the runs that a commit counts are tested",
        "commit",
        "tonumber(used or 0) + runs > tonumber(runs_max)",
        "tonumber(used or 0) >= tonumber(runs_max)",
        nodes.test_so_many_runs_as_are_asked_for_must_be_left,
    ),
    Mutant(
        "the last run may be used",
        "commit",
        "+ runs > tonumber(runs_max)",
        "+ runs >= tonumber(runs_max)",
        nodes.test_a_raised_bound_lets_more_run,
    ),
    Mutant(
        "a create sets the limit of runs",
        "create",
        "in pairs(caps or {}) do",
        "in pairs({}) do",
        nodes.test_sixteen_that_race_for_five_runs_never_begin_more_than_five,
    ),
    Mutant(
        "a row may change the limit of runs",
        "commit",
        "in pairs(caps or {}) do",
        "in pairs({}) do",
        nodes.test_a_raised_bound_lets_more_run,
    ),
)
INBOXES: tuple[Mutant, ...] = (
    Mutant(
        "a record that does not exist gets no mail",
        "post",
        "if not version then",
        "version = version or '1'\nif false then",
        inboxes.test_mail_to_what_was_forgotten_meanwhile_is_kept_nowhere,
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
)
CROSSING = (*TELLS, *SLOTS, *SUMS, *RUNS, *INBOXES)

"""Guards of creating, countdowns, pauses, money, runs and the health gate, with their tests."""

from __future__ import annotations

from tests.kernel.store import test_budget as budget
from tests.kernel.store import test_commits as commits
from tests.kernel.store import test_countdowns as countdowns
from tests.kernel.store import test_families as families
from tests.kernel.store import test_family_log as family_log
from tests.kernel.store import test_gate as gate
from tests.kernel.store import test_pause as pause
from tests.kernel.store import test_quarantine as quarantine
from tests.kernel.store import test_runs as runs
from tests.kernel.store.mutant import Mutant

FAMILIES = (
    Mutant(
        "nobody joins without the placeholder",
        "create",
        " or redis.call('SISMEMBER', members, '*') == 0",
        "",
        countdowns.test_nobody_joins_after_the_spawning_ended,
    ),
    Mutant(
        "a repeated create does not join the countdown again",
        "create",
        "if digest then",
        "if digest and (plan.countdown == '' or redis.call('SADD', parent_keys[2], id)) then",
        countdowns.test_a_repeated_birth_never_joins_twice,
    ),
    Mutant(
        "no child is created under a parent that has ended",
        "create",
        "return ended == '1' or not state",
        "return not state",
        countdowns.test_nobody_is_born_under_a_parent_that_ended,
    ),
    Mutant(
        "a parent that has ended gets no advance",
        "commit",
        "if not state or ended == '1' then",
        "if not state then",
        countdowns.test_a_child_that_ends_under_an_ended_parent_owes_nothing,
    ),
    Mutant(
        "only a member can leave a countdown",
        "leave_countdown",
        "if redis.call('SREM', members, member) == 0 then",
        "if redis.call('SREM', members, member) == 2 then",
        countdowns.test_a_member_that_should_have_left_departs_once,
    ),
    Mutant(
        "a spawn's outcome leaves the placeholder",
        "commit",
        " and entry.kind ~= 'spawn' then",
        " then",
        countdowns.test_an_outcome_under_a_spawns_token_leaves_the_placeholder_to_its_settling,
    ),
    Mutant(
        "an id belongs to one payload",
        "create",
        "digest == plan.digest and 'replayed'",
        "'replayed'",
        commits.test_create_is_told_apart_by_its_payload,
    ),
    Mutant(
        "a child stays what it was created from",
        "create",
        " or plan.countdown ~= '' and 'another'",
        "",
        countdowns.test_a_child_stays_what_it_was_created_from,
    ),
    Mutant(
        "the children are listed beside the event",
        "commit",
        "n == #plan.events and plan.logged or {}",
        "{}",
        families.test_the_children_are_listed_beside_the_event_and_no_later_change_changes_them,
    ),
    Mutant(
        "pausing keeps the remaining time of a timer",
        "pause",
        "math.max(tonumber(due_at) - now_ms, 0)",
        "0",
        pause.test_timers_keep_their_remainder,
    ),
    Mutant(
        "a claim does not end what a person in the way of another effect is asked",
        "claim",
        "asks = asks or asks_person(entry)",
        "",
        quarantine.test_a_person_in_the_way_of_two_effects_is_asked_until_both_are_tried_again,
    ),
    Mutant(
        "a person is asked about an effect that outlives its state",
        "commit",
        "or (entry.state == 'owed' and entry.holder == PERSON)",
        "",
        quarantine.test_a_person_in_the_way_of_a_transitions_effect_is_asked_after_the_state_is_left,
    ),
    Mutant(
        "retrying answers a card that is still open after the delay",
        "retry",
        "(asks_person(entry) or now_ms < entry.not_before)",
        "now_ms < entry.not_before",
        quarantine.test_a_card_is_answered_after_the_delay_too,
    ),
    Mutant(
        "an answer to an older obstacle is refused",
        "retry",
        "given_back_at = math.max(given_back_at, entry.kill_by)",
        "given_back_at = 1",
        quarantine.test_an_answer_about_an_older_obstacle_is_refused,
    ),
    Mutant(
        "no proposal is current where no effect asks a person",
        "retry",
        "if plan.proposal ~= '' and plan.proposal ~= current then",
        "if plan.proposal ~= '' and current ~= '' and plan.proposal ~= current then",
        quarantine.test_an_answer_is_refused_where_no_effect_asks_a_person,
    ),
    Mutant(
        "retrying leaves a paused record alone",
        "retry",
        "and paused ~= '1'",
        "",
        quarantine.test_a_retry_starts_no_effect_of_a_paused_record,
    ),
    Mutant(
        "what the holder has reserved itself is not in its way",
        "reserve",
        " + (own[name] or 0)",
        "",
        budget.test_a_repeated_reservation_replaces_its_own,
    ),
    Mutant(
        "what a lost holder may have used counts as used",
        "reserve",
        " - tonumber(residue or 0)",
        "",
        budget.test_what_a_lost_holder_may_have_spent_is_residue,
    ),
    Mutant(
        "nothing is reserved while a holder waits",
        "reserve",
        "release_reservation(chain, entry)\nif not waits",
        "if not waits then release_reservation(chain, entry) end\nif not waits",
        budget.test_who_waits_has_nothing_reserved_so_that_no_two_wait_for_each_other,
    ),
    Mutant(
        "what is over a cap leaves the reservation as it is",
        "reserve",
        "  count(metrics, 'over', entry.name)\n",
        (
            "  count(metrics, 'over', entry.name)\n  release_reservation(chain, entry)\n"
            "  write_entry(record, plan.suffix, entry)\n"
        ),
        budget.test_what_is_over_a_cap_leaves_the_earlier_reservation,
    ),
    Mutant(
        "a report of another holder leaves the reservation as it is",
        "note",
        "if entry and entry.token == token then",
        "if entry then",
        budget.test_a_late_report_takes_its_own_share_out_of_the_residue,
    ),
    Mutant(
        "the last report gives the rest back",
        "note",
        "not is_final and deltas or nil",
        "deltas",
        budget.test_a_late_report_takes_its_own_share_out_of_the_residue,
    ),
    Mutant(
        "what a lost holder had reserved is kept under its token",
        "claim",
        "'l:' .. entry.token",
        "'l:'",
        budget.test_a_late_report_takes_its_own_share_out_of_the_residue,
    ),
    Mutant(
        "the caps of the whole chain are tested",
        "reserve",
        "for n, counters in ipairs(chain) do",
        "for n, counters in ipairs({chain[1]}) do",
        budget.test_children_share_the_cap_of_their_root_and_may_have_a_lower_one,
    ),
    Mutant(
        "a changed server closes the gate",
        "identify_server",
        "incarnation = plan.incarnation\n  open_at = tostring(now_ms + plan.lease_ms)",
        "incarnation = plan.incarnation",
        gate.test_a_changed_server_is_noted_once_and_closes_the_gate_for_one_lease,
    ),
    Mutant(
        "stalled sweeps close the gate",
        "identify_server",
        "> 2 * plan.period_ms",
        "> 9999999",
        gate.test_sweeps_that_stalled_give_holders_one_lease,
    ),
    Mutant(
        "sweeps that are always late open the gate again",
        "identify_server",
        " and tonumber(open_at) <= tonumber(last_pass)",
        "",
        gate.test_sweeps_that_are_always_late_find_their_orphans_too,
    ),
    Mutant(
        "a refused commit is not in the family log",
        "commit",
        "if stored ~= plan.version then",
        (
            "add_to_family_log(family_log[1], 9, plan.id, plan.version)\nif stored ~= "
            "plan.version then"
        ),
        family_log.test_a_repeat_and_a_refusal_add_nothing,
    ),
    Mutant(
        "only some machines have a family log",
        "commit",
        "  if family_log then",
        "  family_log, length = family_log or KEYS[#KEYS], length or 9\n  if true then",
        family_log.test_a_family_has_its_own_log_and_who_needs_none_has_none,
    ),
    Mutant(
        "a family log has a limit",
        "commit",
        "'MAXLEN', '~', length, ",
        "",
        family_log.test_a_family_log_goes_back_a_bounded_number_of_commits,
    ),
    Mutant(
        "the newest commits of a family log are kept",
        "commit",
        "'MAXLEN', '~', length",
        "'MAXLEN', '=', 1",
        family_log.test_a_family_log_goes_back_a_bounded_number_of_commits,
    ),
    Mutant(
        "no record is created in a parent that has ended",
        "create",
        "return ended == '1' or not state",
        "return not state",
        runs.test_no_codon_is_born_in_a_run_that_has_ended,
    ),
    Mutant(
        "no record is created in a parent that does not exist",
        "create",
        "return ended == '1' or not state",
        "return ended == '1'",
        runs.test_nothing_is_born_within_what_does_not_exist,
    ),
    Mutant(
        "a create tests the parent that it needs",
        "create",
        "if plan.needs_parent and",
        "if false and",
        runs.test_no_codon_is_born_after_its_runs_end_whatever_the_race,
    ),
    Mutant(
        "a repeated create is answered before the parent is tested",
        "create",
        "if digest then",
        "if digest and not plan.needs_parent then",
        runs.test_a_birth_that_is_repeated_after_the_end_gets_its_first_answer,
    ),
    Mutant(
        "the family log is deleted with its workspace",
        "prune",
        "posts, post_times, family_log)",
        "posts, post_times)",
        runs.test_nothing_is_left_of_a_closed_workspace_in_whatever_order_it_is_forgotten,
    ),
)

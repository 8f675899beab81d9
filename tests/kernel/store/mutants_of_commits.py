"""Guards of the commit script and of feeds, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_claims as claims
from tests.kernel.store import test_commits as commits
from tests.kernel.store import test_feed as feed
from tests.kernel.store import test_following as following
from tests.kernel.store import test_nodes as nodes
from tests.kernel.store import test_outcomes as outcomes
from tests.kernel.store import test_pause as pause
from tests.kernel.store import test_polls as takes
from tests.kernel.store import test_quarantine as quarantine
from tests.kernel.store.mutant import Mutant

COMMITS = (
    Mutant(
        "a record that is gone is missing",
        "commit",
        "if not stored then",
        "stored = stored or '0'\nif false then",
        commits.test_a_decision_on_a_record_that_is_gone_commits_nothing,
    ),
    Mutant(
        "an op-id belongs to one call",
        "commit",
        "known_digest == digest and 'replayed' or 'reused'",
        "'replayed'",
        commits.test_an_op_id_is_for_one_call_only,
    ),
    Mutant(
        "each commit drops at most two old op-ids",
        "commit",
        "'BYSCORE', 'LIMIT', 0, 2)",
        "'BYSCORE', 'LIMIT', 0, 9)",
        commits.test_op_ids_are_dropped_after_the_window_two_at_a_time,
    ),
    Mutant(
        "the token is compared",
        "commit",
        "return live and entry.token == proof",
        "return live",
        claims.test_a_lapsed_effect_goes_to_the_next_who_asks_and_fences_the_first,
    ),
    Mutant(
        "the token of a draining effect is void",
        "commit",
        "state == 'lapsed' or state == 'quarantined'\n",
        "state == 'lapsed' or state == 'quarantined' or state == 'draining'\n",
        outcomes.test_an_outcome_of_a_released_or_left_effect_is_fenced,
    ),
    Mutant(
        "a quarantined holder's outcome is good",
        "commit",
        "state == 'lapsed' or state == 'quarantined'\n",
        "state == 'lapsed'\n",
        quarantine.test_a_late_outcome_ends_the_quarantine,
    ),
    Mutant(
        "a lapsed holder's outcome is good",
        "commit",
        "local live = state == 'leased' or state == 'lapsed' or",
        "local live = state == 'leased' or",
        outcomes.test_an_outcome_of_a_lapsed_effect_counts_until_somebody_else_claims,
    ),
    Mutant(
        "the lapsed warrant needs the mark",
        "commit",
        "return state == 'lapsed' and entry.token == proof",
        "return entry.token == proof",
        takes.test_a_carried_effect_that_comes_back_is_not_taken_for_lost,
    ),
    Mutant(
        "the lapsed warrant needs that token",
        "commit",
        "return state == 'lapsed' and entry.token == proof",
        "return state == 'lapsed'",
        commits.test_a_lapsed_warrant_holds_only_while_marked_and_under_that_token,
    ),
    Mutant(
        "the exhausted warrant needs used-up attempts",
        "commit",
        "return unheld and exhausted and",
        "return unheld and",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    Mutant(
        "the exhausted warrant compares the number of attempts",
        "commit",
        " and entry.attempts == tonumber(proof)",
        "",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    Mutant(
        "the exhausted warrant needs an effect without a holder",
        "commit",
        "return unheld and exhausted",
        "return exhausted",
        commits.test_an_exhausted_warrant_counts_the_attempts,
    ),
    Mutant(
        "the due warrant compares the due time",
        "commit",
        "local same = due_at == proof and",
        "local same =",
        commits.test_a_timer_that_was_set_anew_fires_no_more_at_its_old_time,
    ),
    Mutant(
        "the due warrant compares the version that set the timer",
        "commit",
        " and set_at_version == version",
        "",
        commits.test_a_timer_of_a_state_that_was_left_and_entered_again_is_another,
    ),
    Mutant(
        "the due warrant compares the clock",
        "commit",
        " and tonumber(due_at) <= now_ms",
        "",
        commits.test_a_sweeps_timer_fires_once_and_only_when_it_is_due,
    ),
    Mutant(
        "a paused timer is not due",
        "commit",
        "and left == '-' and",
        "and",
        pause.test_a_paused_timer_fires_nothing,
    ),
    Mutant(
        "a person's decision names the entry into the state",
        "commit",
        "return redis.call('HGET', record, 'entered') == subject",
        "return true",
        commits.test_the_script_compares_the_stay_itself,
    ),
    Mutant(
        "facts are compared",
        "commit",
        "'version') ~= version then",
        "'version') == '' then",
        commits.test_facts_are_kept_in_the_event_and_compared_at_the_commit,
    ),
    Mutant(
        "a draining effect has its grace",
        "commit",
        "'draining'\n    entry.kill_by = entry.lease_until + entry.grace_ms",
        "'draining'\n    entry.kill_by = entry.lease_until",
        takes.test_the_grace_of_a_carried_effect_is_its_own,
    ),
    Mutant(
        "an effect that has begun may not start again",
        "commit",
        "entry.no_restart = entry.begun",
        "entry.no_restart = 0",
        outcomes.test_carrying_keeps_the_effect_and_its_token,
    ),
    Mutant(
        "an effect that never began may start again",
        "commit",
        "entry.no_restart = entry.begun",
        "entry.no_restart = 1",
        outcomes.test_anybody_may_carry_and_what_never_began_may_still_start,
    ),
    Mutant(
        "each transition of a commit has a version of its own",
        "commit",
        "plan.version + #plan.events",
        "plan.version + 1",
        following.test_an_outcome_and_what_follows_are_one_commit,
    ),
    Mutant(
        "a creation has the version of its last transition",
        "create",
        "local version = tostring(#plan.events)",
        "local version = '1'",
        following.test_a_creation_and_what_follows_are_one_commit_with_an_event_each,
    ),
    Mutant(
        "each transition of a commit is counted",
        "commit",
        "source, since = state, now_ms",
        "break",
        following.test_each_transition_is_listed_and_counted,
    ),
    Mutant(
        "each transition of a creation is counted",
        "create",
        "for n = 2, #plan.states do",
        "for n = 2, 1 do",
        following.test_each_transition_is_listed_and_counted,
    ),
    Mutant(
        "no time was spent in the states between",
        "commit",
        "source, since = state, now_ms",
        "source = state",
        following.test_each_transition_is_listed_and_counted,
    ),
    Mutant(
        "a mirror that nobody has begun is replaced",
        "commit",
        "elseif entry.name == plan.mirror and entry.state == 'owed'",
        "elseif false",
        nodes.test_whatever_changes_a_record_with_a_mirror_is_shown_once_it_rests,
    ),
    Mutant(
        "a mirror at work is not replaced",
        "commit",
        "elseif entry.name == plan.mirror and entry.state == 'owed'",
        "elseif entry.name == plan.mirror",
        nodes.test_a_mirror_at_work_is_no_reason_to_leave_the_next_one_out,
    ),
    Mutant(
        "a refused commit is not in the feed",
        "commit",
        "if known then",
        "if known then\n  add_to_feed(feed, plan, plan.version)",
        feed.test_a_repeat_a_refusal_and_a_note_are_no_commits,
    ),
    Mutant(
        "a feed has a limit",
        "commit",
        "'MAXLEN', '~', plan.feed_length, ",
        "",
        feed.test_a_position_that_is_no_longer_kept_is_refused,
    ),
)

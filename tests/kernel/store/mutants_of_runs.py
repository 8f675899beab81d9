"""Guards of runs and their codons, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_family_log as family_log
from tests.kernel.store import test_run_sums as sums
from tests.kernel.store import test_runs as runs
from tests.kernel.store.mutant import Mutant

RUNS: tuple[Mutant, ...] = (
    Mutant(
        "a create is in the family log",
        "create",
        "    add_to_family_log(family_log, plan.family_log_length, plan.id, at)",
        "",
        family_log.test_births_and_commits_are_listed_in_the_order_in_which_they_came,
    ),
    Mutant(
        "a commit is in the family log",
        "commit",
        "    add_to_family_log(family_log, plan.family_log_length, plan.id, at)",
        "",
        family_log.test_writers_that_race_are_listed_in_the_order_of_their_commits,
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
        "one run at a time",
        "create",
        "if holder then",
        "if false then",
        runs.test_of_runs_that_begin_side_by_side_one_begins,
    ),
    Mutant(
        "costs are summed in the tree",
        "commit",
        "add_to_trees(chain, 'tree.' .. name, amount)",
        "",
        sums.test_costs_are_summed_in_a_run_and_its_workspace,
    ),
    Mutant(
        "the family log is deleted with its workspace",
        "prune",
        "posts, post_times, family_log)",
        "posts, post_times)",
        runs.test_nothing_is_left_of_a_closed_workspace_in_whatever_order_it_is_forgotten,
    ),
    Mutant(
        "the family log stays while a run is at work",
        "prune",
        "if redis.call('HLEN', holds) == 0 then",
        "if true then",
        runs.test_what_is_shared_stays_while_a_run_is_at_work,
    ),
)

"""Guards of runs and their codons, each with the test that misses it."""

from __future__ import annotations

from tests.kernel.store import test_chronicle as chronicle
from tests.kernel.store import test_run_sums as sums
from tests.kernel.store import test_runs as runs
from tests.kernel.store.mutant import Mutant

ABOVE = "if above[1] == '1' or not above[2] then return {'closed', '0', '0'} end"
WITHIN = "KEYS[#KEYS - (plan.chronicle and 1 or 0)], 'ended', 'state')\n  " + ABOVE
RUNS: tuple[Mutant, ...] = (
    Mutant(
        "a birth is in the chronicle",
        "create",
        "chronicle(plan, plan.id, '1')",
        "",
        chronicle.test_births_and_commits_are_listed_in_the_order_in_which_they_came,
    ),
    Mutant(
        "a commit is in the chronicle",
        "commit",
        "plan.deltas); chronicle(plan, id, version)",
        "plan.deltas)",
        chronicle.test_writers_that_race_are_listed_in_the_order_of_their_commits,
    ),
    Mutant(
        "what is refused is not in the chronicle",
        "commit",
        "if stands[1] ~= plan.version then",
        "chronicle(plan, id, plan.version)\nif stands[1] ~= plan.version then",
        chronicle.test_a_repeat_and_a_refusal_add_nothing,
    ),
    Mutant(
        "only what is chronicled is listed",
        "commit",
        "if plan.chronicle then",
        "if plan.chronicle or KEYS[#KEYS] then plan.chronicle = plan.chronicle or 9",
        chronicle.test_a_family_has_its_own_chronicle_and_who_needs_none_has_none,
    ),
    Mutant(
        "a chronicle is bounded",
        "commit",
        "'MAXLEN', '~', plan.chronicle, ",
        "",
        chronicle.test_a_chronicle_goes_back_a_bounded_number_of_commits,
    ),
    Mutant(
        "the newest commits are kept",
        "commit",
        "'MAXLEN', '~', plan.chronicle",
        "'MAXLEN', '=', 1",
        chronicle.test_a_chronicle_goes_back_a_bounded_number_of_commits,
    ),
    Mutant(
        "nothing is born within what has ended",
        "create",
        WITHIN,
        WITHIN.replace("above[1] == '1' or ", ""),
        runs.test_no_codon_is_born_in_a_run_that_has_ended,
    ),
    Mutant(
        "nothing is born within what does not exist",
        "create",
        WITHIN,
        WITHIN.replace(" or not above[2]", ""),
        runs.test_nothing_is_born_within_what_does_not_exist,
    ),
    Mutant(
        "a birth and an end that race are one after the other",
        "create",
        "if plan.within then",
        "if false then",
        runs.test_no_codon_is_born_after_its_runs_end_whatever_the_race,
    ),
    Mutant(
        "a repeated birth is told before what is above",
        "create",
        "if kept then return",
        "if kept and not plan.within then return",
        runs.test_a_birth_that_is_repeated_after_the_end_gets_its_first_answer,
    ),
    Mutant(
        "one run at a time",
        "create",
        "if other then return {'held', other, '0'} end",
        "",
        runs.test_of_runs_that_begin_side_by_side_one_begins,
    ),
    Mutant(
        "costs are summed up the tree",
        "commit",
        "cost = true, ",
        "",
        sums.test_costs_are_summed_in_a_run_and_its_workspace,
    ),
    Mutant(
        "what is spent is summed up the tree",
        "commit",
        "{spent = true, ",
        "{",
        sums.test_what_is_skipped_costs_nothing_and_stays_spent,
    ),
    Mutant(
        "the chronicle goes with its workspace",
        "prune",
        "unpack(KEYS, last - 3)",
        "unpack(KEYS, last - 3, last - 1)",
        runs.test_nothing_is_left_of_a_closed_workspace_in_whatever_order_it_is_forgotten,
    ),
    Mutant(
        "the chronicle stays while a run is at work",
        "prune",
        "if redis.call('HLEN', KEYS[last - 4]) == 0 then",
        "if true then",
        runs.test_what_is_shared_stays_while_a_run_is_at_work,
    ),
)

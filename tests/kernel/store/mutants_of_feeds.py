"""Guards of the feeds of partitions, each with the test that fails without it."""

from __future__ import annotations

from tests.kernel.store import test_feed as feed
from tests.kernel.store.mutant import Mutant

FEEDS: tuple[Mutant, ...] = (
    Mutant(
        "a create is in the feed",
        "create",
        "    add_to_feed(feed, plan, at)",
        "",
        feed.test_who_goes_on_from_any_position_gets_exactly_the_rest,
    ),
    Mutant(
        "a commit is in the feed",
        "commit",
        "    add_to_feed(feed, plan, at)",
        "",
        feed.test_who_goes_on_from_any_position_gets_exactly_the_rest,
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

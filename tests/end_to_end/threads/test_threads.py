"""The happy path of each effect, and that it is this effect which makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.threads.client import Threads
from tests.end_to_end.conftest import NewHouse
from tests.end_to_end.deployment import House, thread

SHORT_S = 6.0


def is_executed(house: House, within_s: float) -> None:
    """A thread that needs nobody is inferred and executed."""
    house.client.submit(thread("jot", text="hello"), machine="thread", id="one")
    record = house.ends("one", within_s=within_s)[0]
    assert (record.state, record.data["result"]) == ("done", "hello")
    assert [line["what"] for line in house.witness] == ["start", "end"]


def is_cleaned_up(house: House, within_s: float) -> None:
    """A thread that was done elsewhere is tidied up at its source."""
    matter = thread("jot", policy="plan_then_review", source="witnessed")
    house.client.submit(matter, machine="thread", id="one")
    house.reaches("one", "awaiting_confirmation", within_s=within_s)
    house.client.fire("one", "cleanup_requested")
    assert house.ends("one", within_s=within_s)[0].data["cleaned"]["detail"] == "swept"


def is_shown_and_answered(house: House, within_s: float) -> None:
    """A thread that needs consent is shown to people until somebody answers."""
    card = house.folder / "cards" / "one.json"
    house.client.submit(thread("jot", policy="plan_then_review"), machine="thread", id="one")
    house.sees(card.exists, what="the card is shown", within_s=within_s)
    house.client.decide("one", "approve", proposal=house.client.show("one").proposal)
    assert house.ends("one", within_s=within_s)[0].state == "done"
    house.sees(lambda: not card.exists(), what="the card is taken away", within_s=within_s)


def is_split_and_joined(house: House, within_s: float) -> None:
    """A thread that is split ends after its parts."""
    matter = thread("jot")
    matter["given"]["action"]["kind"] = "suggestion"
    house.client.submit(matter, machine="thread", id="one")
    asked = house.reaches("one", "awaiting_confirmation", within_s=within_s)
    parts = [{"title": "part", "given": thread("jot")["given"]} for _ in range(2)]
    Threads(house.client).decompose("one", parts, proposal=asked.proposal)
    assert house.ends("one", within_s=within_s)[0].data["tally"] == {"done": 2}


Scenario = Callable[[House, float], None]
SCENARIOS: Mapping[str, Scenario] = {
    "inference": is_executed,
    "execution": is_executed,
    "cleanup": is_cleaned_up,
    "resolution": is_shown_and_answered,
    "spawn": is_split_and_joined,
    "cascade": is_split_and_joined,
}


def house_with_cards(new_house: NewHouse, **more: str) -> House:
    house = new_house(**more)
    house.variables["INTERLOCK_CARDS"] = str(house.folder / "cards")
    return house.full()


@pytest.mark.parametrize("scenario", dict.fromkeys(SCENARIOS.values()))
def test_a_thread_runs_from_its_producer_to_its_end(
    new_house: NewHouse, scenario: Scenario
) -> None:
    scenario(house_with_cards(new_house), 30)


@pytest.mark.proof
@pytest.mark.parametrize("effect", sorted(SCENARIOS))
def test_without_the_body_of_an_effect_its_happy_path_fails(
    new_house: NewHouse, effect: str
) -> None:
    house = house_with_cards(new_house, HOUSE_WITHOUT=effect)

    with pytest.raises(AssertionError):
        SCENARIOS[effect](house, SHORT_S)


def test_each_effect_has_its_happy_path() -> None:
    assert set(SCENARIOS) == set(MACHINES["thread"].effects)

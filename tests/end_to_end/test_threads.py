from __future__ import annotations

from tests.end_to_end.house import House, thread


def test_a_thread_that_needs_nobody_runs_to_done(house: House) -> None:
    done = house.client.submit(thread("jot", text="hello"), id="one")

    record = house.ends(done.id)[0]

    assert (record.state, record.data["result"]) == ("done", "hello")
    assert [line["what"] for line in house.witness] == ["start", "end"]

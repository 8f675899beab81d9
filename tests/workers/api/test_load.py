"""While too many calls are at work, more are refused at once; other callers are still served."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx2
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from interlock.workers.api.load import AT_ONCE_OF_ALL, AT_ONCE_OF_ONE, LoadLimit

MORE = 3


def test_one_caller_and_all_callers_have_so_many_calls_at_work() -> None:
    async def act() -> None:
        done, begun = asyncio.Event(), Counter[str]()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            begun["all"] += 1
            await done.wait()
            await PlainTextResponse("well")(scope, receive, send)

        limited = httpx2.ASGITransport(app=LoadLimit(app))
        async with httpx2.AsyncClient(transport=limited, base_url="http://here") as http:

            async def call(who: str) -> httpx2.Response:
                return await http.get("/", headers={"Authorization": f"Bearer {who}"})

            of_ann = [asyncio.create_task(call("ann")) for _ in range(AT_ONCE_OF_ONE + MORE)]
            await asyncio.wait(of_ann, return_when=asyncio.FIRST_COMPLETED)
            refused = [task.result() for task in of_ann if task.done()]
            assert {answer.status_code for answer in refused} == {429}
            assert refused[0].headers["Retry-After"] == "1"

            rest = AT_ONCE_OF_ALL - AT_ONCE_OF_ONE
            others = [asyncio.create_task(call(str(number))) for number in range(rest + MORE)]
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
            answers = {task.result().status_code for task in others if task.done()}
            assert answers == {503}

            done.set()
            found = Counter([(await task).status_code for task in (*of_ann, *others)])
            assert found == {200: AT_ONCE_OF_ALL, 429: MORE, 503: MORE}
            assert begun["all"] == AT_ONCE_OF_ALL
            assert (await call("ann")).status_code == 200, "what has ended is not counted"

    asyncio.run(act())


def test_a_stream_that_has_begun_takes_no_room() -> None:
    async def act() -> None:
        end = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            del scope, receive
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await end.wait()
            await send({"type": "http.response.body", "body": b""})

        limited, statuses = LoadLimit(app), list[int]()

        async def follow() -> None:
            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(int(str(message["status"])))

            async def receive() -> Message:
                return {"type": "http.request"}

            scope = {"type": "http", "headers": [], "client": ("127.0.0.1", 1)}
            await limited(scope, receive, send)

        streams = [asyncio.create_task(follow()) for _ in range(AT_ONCE_OF_ALL * 2)]
        await asyncio.sleep(0)
        end.set()
        await asyncio.gather(*streams)
        assert statuses == [200] * len(streams)

    asyncio.run(act())

"""A command and all its children end together."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.workers.processes import process_group as module
from interlock.workers.processes.process_group import OUTPUT_BYTES_MAX, process_group, run_command
from tests.processes import is_alive


async def until(file: Path) -> int:
    """Wait for a file with a process id in it."""
    while not (text := _text(file)).endswith("\n"):  # noqa: ASYNC110 - no event announces a file
        await asyncio.sleep(0.01)
    return int(text)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_exit_code_and_both_outputs_come_back() -> None:
    finished = asyncio.run(run_command(["bash", "-c", "echo out; echo err >&2; exit 3"]))

    assert (finished.exit_code, finished.output, finished.errors) == (3, "out\n", "err\n")
    assert not finished.truncated


def test_all_output_arrives_although_the_leader_has_ended() -> None:
    script = f"head -c {OUTPUT_BYTES_MAX} /dev/zero | tr '\\0' x"

    finished = asyncio.run(run_command(["bash", "-c", script]))

    assert finished.output == "x" * OUTPUT_BYTES_MAX


def test_the_last_part_of_endless_output_is_kept() -> None:
    finished = asyncio.run(run_command(["bash", "-c", "head -c 50000000 /dev/zero; echo end"]))

    assert finished.truncated
    assert finished.output.endswith("\N{REPLACEMENT CHARACTER}end\n")
    assert len(finished.output) == OUTPUT_BYTES_MAX


def test_a_command_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(run_command(["no-such-command-here"]))


def test_cancelling_ends_a_grandchild_that_ignores_sigterm(tmp_path: Path) -> None:
    script = "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done) & wait"

    async def cancelled() -> int:
        task = asyncio.create_task(
            run_command(["bash", "-c", script], folder=tmp_path, grace_s=0.1)
        )
        pid = await until(tmp_path / "pid")
        assert is_alive(pid)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    assert not is_alive(asyncio.run(cancelled()))


def test_a_second_cancellation_does_not_save_the_group(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done"

    async def cancelled_twice() -> int:
        task = asyncio.create_task(
            run_command(["bash", "-c", script], folder=tmp_path, grace_s=0.3)
        )
        pid = await until(tmp_path / "pid")
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    assert not is_alive(asyncio.run(cancelled_twice()))


def test_a_child_left_in_the_background_ends_with_its_command(tmp_path: Path) -> None:
    script = "sleep 300 & echo $! > pid; echo done"

    finished = asyncio.run(run_command(["bash", "-c", script], folder=tmp_path))

    assert finished.output == "done\n"
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_child_in_a_session_of_its_own_does_not_delay_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REAP_S", 0.1)
    away = "setsid bash -c 'echo $$ > pid; exec sleep 300' &"
    script = f"{away} until [ -s pid ]; do sleep 0.01; done; echo done"

    async def bounded() -> str:
        async with asyncio.timeout(60):
            return (await run_command(["bash", "-c", script], folder=tmp_path)).output

    try:
        assert asyncio.run(bounded()) == "done\n"
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def test_leaving_the_block_with_an_error_ends_the_group() -> None:
    async def fails() -> None:
        async with process_group(["sleep", "300"], reads=True) as group:
            pids.append(group.leader.pid)
            raise LookupError

    pids: list[int] = []
    with pytest.raises(LookupError):
        asyncio.run(fails())

    assert not is_alive(pids[0])


UNREAD = b"x" * 1_000_000  # more than a pipe holds


def test_a_command_that_does_not_read_its_input_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def unread() -> None:
        async with process_group(["true"], reads=True) as group:
            stdin = group.leader.stdin
            assert stdin is not None, "started with pipes"
            stdin.write(UNREAD)
            # It raises nothing where the command had ended before anything was written.
            with suppress(ConnectionError):
                await stdin.drain()

    asyncio.run(unread())
    gc.collect()

    assert not caplog.records


def test_the_input_is_closed_although_a_survivor_never_reads_it(tmp_path: Path) -> None:
    away = "exec 3<&0; setsid bash -c 'echo $$ > pid; exec sleep 300' <&3 &"

    async def unread() -> bool:
        command = ["bash", "-c", f"{away} wait"]
        async with process_group(command, reads=True, folder=tmp_path) as group:
            stdin = group.leader.stdin
            assert stdin is not None, "started with pipes"
            stdin.write(UNREAD)
            await until(tmp_path / "pid")
        return stdin.transport.get_write_buffer_size() == 0

    try:
        assert asyncio.run(unread())
    finally:
        if survivor := _text(tmp_path / "pid"):
            os.kill(int(survivor), 9)

"""The janitor's look at finished work in a folder: whether it is what the signals ask for.

It never changes the folder, though a test command may, and never raises for what it finds: each
signal has one result, and what cannot be judged has failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.workers.files.folder import FolderError, UntrustedFolder
from interlock.workers.processes.group import Tail, process_group
from interlock.workers.tasks.verification.opinion import Asked, Opinion, judge_says, reviewer_says
from interlock.workers.tasks.verification.signals import (
    Signal,
    SignalResult,
    SignalType,
    Verdict,
    file_and_text,
)
from interlock.workers.text import sentence

TEST_S = 120.0
ANSWER_S = 60.0
OUTPUT_BYTES_MAX = 4 * 1024
_READ_S = 2.0


async def check(
    signals: Sequence[Signal],
    *,
    folder: Path,
    reviewer: Asked | None,
    judge: Asked | None,
    environment: Mapping[str, str] | None = None,
    test_s: float = TEST_S,
    answer_s: float = ANSWER_S,
) -> Verdict:
    """Judge the signals one after the other; a judge is asked last, and only if all else passed.

    Without an environment a test command has the worker's own. Cancelling ends the test command
    with all that it started.
    """
    janitor = _Janitor(folder, reviewer, judge, environment, test_s, answer_s)
    results: dict[int, SignalResult] = {}
    for last in (False, True):
        others_passed = all(result.passed for result in results.values())
        for index, signal in enumerate(signals):
            if (signal.type == SignalType.LLM_JUDGE) is not last:
                continue
            if last and not others_passed:
                results[index] = _result(signal, _Found("not asked: another signal failed"))
            else:
                results[index] = await janitor.judged(signal)
    in_order = tuple(results[index] for index in range(len(signals)))
    return Verdict(all(result.passed for result in in_order), in_order)


@dataclass(frozen=True, slots=True)
class _Found:
    detail: str
    passed: bool = False


@dataclass(frozen=True, slots=True)
class _Janitor:
    folder: Path
    reviewer: Asked | None
    judge: Asked | None
    environment: Mapping[str, str] | None
    test_s: float
    answer_s: float

    async def judged(self, signal: Signal) -> SignalResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await self._look(signal)
        return replace(_result(signal, found), seconds=loop.time() - began)

    async def _look(self, signal: Signal) -> _Found | Opinion:
        if signal.type not in set(SignalType):
            return _Found(sentence(f"{signal.type!r} is no type of signal"))
        match SignalType(signal.type):
            case SignalType.TEST_PASSES:
                return await self._test(signal.value)
            case SignalType.LLM_REVIEW:
                return await reviewer_says(self.reviewer, signal.value, within_s=self.answer_s)
            case SignalType.LLM_JUDGE:
                return await judge_says(self.judge, signal.value, within_s=self.answer_s)
            case SignalType.PATH_EXISTS | SignalType.GLOB_EXISTS | SignalType.FILE_CONTAINS:
                return await asyncio.to_thread(_look_into, self.folder, signal)

    async def _test(self, command: str) -> _Found:
        # One stream keeps the order of what was printed; the newline keeps the command as it is.
        shell = ["/bin/sh", "-c", f"exec 2>&1\n{command}"]
        try:
            exit_code, output = await self._run(shell)
        except (OSError, ValueError) as error:
            return _Found(sentence(f"the command could not be started: {error}"))
        if exit_code == 0:
            return _Found("exit code 0", passed=True)
        late = f"it did not end within {self.test_s:g} s"
        how = late if exit_code is None else f"exit code {exit_code}"
        last = output.encode()[-OUTPUT_BYTES_MAX:].decode(errors="ignore")
        return _Found(f"{how}; the last output:\n{last}" if last else f"{how}; no output")

    async def _run(self, shell: Sequence[str]) -> tuple[int | None, str]:
        """Return the exit code, None if it did not come in time, and the last of the output."""
        exit_code = None
        async with process_group(
            shell, reads=False, folder=self.folder, environment=self.environment
        ) as group:
            assert group.leader.stdout is not None, "started with pipes"
            output = Tail(group.leader.stdout)
            reader = asyncio.create_task(output.read())
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.test_s):
                        exit_code = await group.leader_ended()
                # Only the end of all that it started closes the pipe.
                await group.end()
                await asyncio.wait({reader}, timeout=_READ_S)
            finally:
                reader.cancel()
        return exit_code, output.text()


def _look_into(root: Path, signal: Signal) -> _Found:
    try:
        folder = UntrustedFolder(root)
        if signal.type == SignalType.PATH_EXISTS:
            there = folder.has(signal.value)
            return _Found("it is there" if there else "it is not there", there)
        if signal.type == SignalType.GLOB_EXISTS:
            fits = folder.has_match(signal.value)
            return _Found("something fits" if fits else "nothing fits", fits)
        path, text = file_and_text(signal.value)
        if not text:
            return _Found("no text is named that the file should contain")
        has = folder.contains(path, text)
        return _Found("the file has the text" if has else "the file does not have the text", has)
    except FolderError as error:
        return _Found(sentence(str(error)))


def _result(signal: Signal, found: _Found | Opinion) -> SignalResult:
    opinion = found if isinstance(found, Opinion) else None
    return SignalResult(
        type=signal.type,
        value=signal.value,
        passed=found.passed,
        detail=found.detail,
        flagged=opinion is not None and opinion.flagged,
        confidence=opinion.confidence if opinion is not None else None,
    )

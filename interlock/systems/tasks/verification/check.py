"""Checks finished work in a folder against its completion signals.

The checks do not change the folder, though a test command may. Each signal has one result; a signal
that cannot be checked has failed, and no exception is raised for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.system.agents import Command, Sandbox
from interlock.system.files import UntrustedFolder
from interlock.system.text import one_line
from interlock.systems.tasks.verification.model_verdict import (
    AskModel,
    ModelVerdict,
    ask_judge,
    ask_reviewer,
)
from interlock.systems.tasks.verification.signals import (
    LAST_OUTPUT,
    CompletionVerdict,
    ParsedSignal,
    SignalResult,
    SignalType,
    file_and_text,
)

TEST_S = 120.0  # for the command of one signal
ANSWER_S = 60.0  # for the answer of a model
OUTPUT_BYTES_MAX = 4 * 1024  # of the last output of a command that are kept


async def check(
    signals: Sequence[ParsedSignal],
    *,
    folder: Path,
    reviewer: AskModel | None,
    judge: AskModel | None,
    sandbox: Sandbox | None = None,
    test_s: float = TEST_S,
    answer_s: float = ANSWER_S,
    hide: Callable[[str], str] = str,
) -> CompletionVerdict:
    """Check the signals one after the other. A model is asked to judge last, if all others passed.

    `hide` hides secrets in what test commands have printed. The end of such a command, or
    a cancellation, ends every process that it started, also daemons.
    """
    checker = _SignalChecker(folder, reviewer, judge, sandbox, test_s, answer_s, hide)
    results: dict[int, SignalResult] = {}
    for last in (False, True):
        others_passed = all(result.passed for result in results.values())
        for index, signal in enumerate(signals):
            if (signal.type == SignalType.LLM_JUDGE) is not last:
                continue
            if last and not others_passed:
                results[index] = _result(signal, _Finding("not asked: another signal failed"))
            else:
                results[index] = await checker.result(signal)
    in_order = tuple(results[index] for index in range(len(signals)))
    return CompletionVerdict(all(result.passed for result in in_order), in_order)


@dataclass(frozen=True, slots=True)
class _Finding:
    detail: str
    passed: bool = False


@dataclass(frozen=True, slots=True)
class _SignalChecker:
    folder: Path
    reviewer: AskModel | None
    judge: AskModel | None
    sandbox: Sandbox | None
    test_s: float
    answer_s: float
    hide: Callable[[str], str]

    async def result(self, signal: ParsedSignal) -> SignalResult:
        loop = asyncio.get_running_loop()
        started = loop.time()
        finding = await self._finding(signal)
        return replace(_result(signal, finding), seconds=loop.time() - started)

    async def _finding(self, signal: ParsedSignal) -> _Finding | ModelVerdict:
        if signal.type not in set(SignalType):
            return _Finding(one_line(f"{signal.type!r} is not a type of signal"))
        match SignalType(signal.type):
            case SignalType.TEST_PASSES:
                return await self._test(signal.value)
            case SignalType.LLM_REVIEW:
                return await ask_reviewer(self.reviewer, signal.value, within_s=self.answer_s)
            case SignalType.LLM_JUDGE:
                return await ask_judge(self.judge, signal.value, within_s=self.answer_s)
            case SignalType.PATH_EXISTS | SignalType.GLOB_EXISTS | SignalType.FILE_CONTAINS:
                return await asyncio.to_thread(_check_files, self.folder, signal)

    async def _test(self, command: str) -> _Finding:
        # One stream keeps the order of the output; the newline keeps the command unchanged.
        shell = ("/bin/sh", "-c", f"exec 2>&1\n{command}")
        # It sees no setting of Interlock, and no variable about the work.
        check = Command(arguments=shell, folder=self.folder, sandbox=self.sandbox)
        try:
            ended = await check.run_contained(within_s=self.test_s)
        except (OSError, ValueError) as error:
            return _Finding(one_line(f"the command could not be run: {error}"))
        exit_code = ended.exit_code
        if exit_code == 0:
            return _Finding("exit code 0", passed=True)
        late = f"it did not end within {self.test_s:g} s"
        how = late if exit_code is None else f"exit code {exit_code}"
        last = self.hide(ended.output).encode()[-OUTPUT_BYTES_MAX:].decode(errors="ignore")
        return _Finding(f"{how}{LAST_OUTPUT}{last}" if last else f"{how}; no output")


def _check_files(root: Path, signal: ParsedSignal) -> _Finding:
    try:
        folder = UntrustedFolder(root)
        if signal.type == SignalType.PATH_EXISTS:
            exists = folder.has(signal.value)
            return _Finding("it exists" if exists else "it does not exist", exists)
        if signal.type == SignalType.GLOB_EXISTS:
            matches = folder.has_match(signal.value)
            return _Finding("a file matches" if matches else "no file matches", matches)
        path, text = file_and_text(signal.value)
        if not text:
            return _Finding("it does not name the text that the file should contain")
        contains = folder.contains(path, text)
        detail = "the file has the text" if contains else "the file does not have the text"
        return _Finding(detail, contains)
    except OSError as error:
        return _Finding(one_line(str(error)))


def _result(signal: ParsedSignal, finding: _Finding | ModelVerdict) -> SignalResult:
    verdict = finding if isinstance(finding, ModelVerdict) else None
    return SignalResult(
        type=signal.type,
        value=signal.value,
        passed=finding.passed,
        detail=finding.detail,
        flagged=verdict is not None and verdict.flagged,
        confidence=verdict.confidence if verdict is not None else None,
    )

"""A listener hears each report of an agent by the method that is for it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from interlock.workers.supervision.listener import ReportListener
from interlock.workers.supervision.reports import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentReady,
    CancelRequested,
    Compacted,
    CompactNeeded,
    MailSent,
    MessageWritten,
    Progress,
    RejectedLine,
    Report,
    SessionOpened,
    SplitRequested,
    Subtask,
    ToolCompleted,
    ToolStarted,
    UsageAdded,
    UsageTotal,
    UsedTokens,
    WorkFinished,
)

FAILED, ADDED = AgentFailed("no"), UsageAdded(2, UsedTokens(1))
SIGNALS = ({"type": "path_exists", "value": "a"},)
HEARD: list[tuple[Report, str, dict[str, Any]]] = [
    (AgentReady(), "ready", {}),
    (Progress("half", 50), "progress", {"message": "half", "percent": 50}),
    (ADDED, "used", {"usage": ADDED}),
    (
        UsageTotal(3, UsedTokens(2), final=True, added=ADDED),
        "total",
        {"total": UsageAdded(3, UsedTokens(2)), "added": ADDED, "final": True},
    ),
    (UsageTotal(None, added=ADDED), "total", {"total": None, "added": ADDED, "final": False}),
    (WorkFinished("done"), "finished", {"summary": "done"}),
    (FAILED, "failed", {"failure": FAILED}),
    (RejectedLine("no JSON", ends=True), "rejected", {"reason": "no JSON", "ends": True}),
    (SessionOpened("s"), "session", {"session": "s"}),
    (MessageWritten("x", own=False), "message", {"text": "x", "continues": False, "own": False}),
    (ToolStarted("edit", "1"), "tool_started", {"tool": "edit", "call": "1"}),
    (
        ToolCompleted("edit", "1", success=False),
        "tool_completed",
        {"tool": "edit", "call": "1", "success": False},
    ),
    (CompactNeeded(), "compact_needed", {}),
    (Compacted(), "compacted", {}),
    (AgentBlocked(task="b/two"), "blocked", {"task": "b/two", "text": None}),
    (
        SplitRequested((Subtask("a"), Subtask("b", signals=SIGNALS, after=(1,)))),
        "split",
        {
            "subtasks": [
                {"title": "a"},
                {"title": "b", "signals": [{"type": "path_exists", "value": "a"}], "after": [1]},
            ]
        },
    ),
    (AbortRaised("tool", "why"), "abort", {"scope": "tool", "reason": "why"}),
    (CancelRequested("b/one", "why"), "cancel_child", {"child": "b/one", "reason": "why"}),
    (
        MailSent("bob", "hi", urgent=True, id="7"),
        "mail",
        {"to": "bob", "text": "hi", "once": "7", "fields": {"urgent": True}},
    ),
]


@pytest.mark.parametrize(("report", "name", "fields"), HEARD)
def test_a_report_is_heard_by_its_own_method(
    monkeypatch: pytest.MonkeyPatch, report: Report, name: str, fields: dict[str, Any]
) -> None:
    heard: list[tuple[str, dict[str, Any]]] = []
    methods = {each: getattr(ReportListener, each) for each in dir(ReportListener)}
    for each, method in methods.items():
        if each.startswith("on_"):
            names = method.__code__.co_varnames[1 : method.__code__.co_argcount]

            def hear(*given: Any, each: str = each, names: Any = names, **named: Any) -> None:
                heard.append((each, {**dict(zip(names, given, strict=True)), **named}))

            monkeypatch.setattr(ReportListener, each, staticmethod(hear))

    ReportListener().hear(report)

    assert heard == [(f"on_{name}", fields)]


def test_every_report_has_an_example_above() -> None:
    assert {type(report) for report, _, _ in HEARD} == {*get_args(Report)}


def test_what_a_total_adds_counts_as_used() -> None:
    used: list[UsageAdded] = []

    class Listener(ReportListener):
        def on_used(self, usage: UsageAdded) -> None:
            used.append(usage)

    Listener().hear(UsageTotal(3, added=ADDED))

    assert used == [ADDED]

"""Long-lived agents that are led by hand: a real store, and neither git nor processes."""

from __future__ import annotations

from functools import partial
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.kernel.store.inboxes import position
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.loops.client import Loops
from interlock.workers.loops.mailbox import Mailbox
from interlock.workers.loops.paths import Home, name_of
from interlock.workers.loops.prompt import store_prompt
from tests.races.in_process_worker import InProcessWorker


class Nest:
    """One worker, and the lives that it leads."""

    def __init__(self, worker: InProcessWorker) -> None:
        self.worker, self.loops = worker, Loops(worker.client)

    @property
    def mailbox(self) -> Mailbox:
        return self.loops.mailbox

    @property
    def host(self) -> str:
        return self.worker.client.settings.host

    def born(self, of: str, **more: Any) -> str:
        """Bear one life of a name."""
        birth = {"repo": "/r", "command": "true", "host": self.host, "next": "on_mail", **more}
        return self.worker.client.submit(birth, id=of, machine="loop").id

    def session(self, of: str, upto: str, ends: str = "session_succeeded", **said: Any) -> Event:
        """Run a session that is given the mail up to one; return the event of its start."""
        self.prompted(of, upto)
        self.worker.perform(of, "session", partial(_session, ends=ends, said=said))
        return self.events(of, "session_started")[-1]

    def prompted(self, of: str, upto: str) -> Record:
        """Lead an agent to a prompt that claims the mail up to one."""
        match self.record(of).state:
            case "initializing":
                self.worker.perform(of, "worktree", self._settled_in)
            case "session_complete":
                self.worker.perform(of, "drain")
        attempt = int(self.record(of).data["attempt"]) + 1
        work_folder = Home(of, self.worker.client.settings).session(attempt)
        prompt, digest = store_prompt(work_folder, "do it")
        unread = [one.id for one in self.mailbox.unread(self.record(of))]
        letters = [one for one in unread if position(one) <= position(upto)]
        told = {"prompt": prompt, "digest": digest, "claimed": upto, "letters": letters}
        self.worker.perform(of, "prompt", lambda _: Outcome("prompt_ready", told))
        return self.record(of)

    def _settled_in(self, work: Work) -> Outcome:
        lives = self.mailbox.lives(name_of(work.record.id))
        told: dict[str, Any] = {"host": self.host, "worktree": "/w", "branch": "b"}
        for life in lives[: lives.index(work.record.id)][-1:]:
            last = self.record(life).data
            told |= {"acknowledged": last["acknowledged"], "ahead": last["ahead"]}
        return Outcome("worktree_ready", told)

    def ended(self, of: str) -> str:
        """Stop a life, and clear what it leaves, which is nothing."""
        self.worker.client.fire(of, "operator_stop", {"reason": "the test is over"})
        self.cleared(of)
        return of

    def cleared(self, of: str) -> None:
        """Settle all that an ended life is owed."""
        self.worker.run_until_idle(
            of, **dict.fromkeys(("retirement", "session", "worktree"), _nothing)
        )

    def record(self, of: str) -> Record:
        return self.worker.record(of)

    def events(self, of: str, trigger: str) -> list[Event]:
        lines = self.worker.client.history(of)
        return [one for one in lines if isinstance(one, Event) and one.trigger == trigger]


def _session(work: Work, ends: str, said: dict[str, Any]) -> Outcome:
    work.fire(Outcome("session_started", {"session_seq": work.record.data["session_seq"]}))
    return Outcome(ends, said)


def _nothing(work: Work) -> None:
    del work

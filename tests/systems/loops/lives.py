"""Long-lived agents on a real store whose effects the tests run, without git or processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from interlock.kernel.event import Event
from interlock.kernel.record import Record
from interlock.kernel.store.inboxes import Mail
from interlock.systems.loops.client import Loops
from interlock.systems.loops.mailbox import Mailbox
from interlock.systems.loops.paths import AgentPaths, name_of
from interlock.systems.loops.session_prompt import store_prompt
from interlock.workers.engine.work import EffectWork, Outcome
from tests.races.in_process_worker import InProcessWorker


class InProcessAgents:
    """One worker, and the lives of agents whose effects it runs one by one."""

    def __init__(self, worker: InProcessWorker) -> None:
        self.worker, self.loops = worker, Loops(worker.client)

    @property
    def mailbox(self) -> Mailbox:
        return self.loops.mailbox

    @property
    def host(self) -> str:
        return self.worker.client.settings.host

    def create(self, life: str, **fields: Any) -> str:
        """Create one life of a name and return its id."""
        defaults = {"repo": "/r", "command": "true", "host": self.host, "next": "on_mail"}
        return self.worker.client.submit({**defaults, **fields}, id=life, machine="loop").id

    def run_session(
        self,
        life: str,
        claimed: str,
        trigger: str = "session_succeeded",
        ahead: Sequence[str] = (),
        **payload: Any,
    ) -> Event:
        """Run a session that is given the mail up to `claimed`; return the event of its start."""
        self.build_prompt(life, claimed, ahead)
        self.worker.perform(life, "session", partial(_session, trigger=trigger, payload=payload))
        return self.events(life, "session_started")[-1]

    def build_prompt(self, life: str, claimed: str, ahead: Sequence[str] = ()) -> Record:
        """Bring an agent to the state in which its prompt claims mail: up to one, and `ahead`."""
        match self.record(life).state:
            case "initializing":
                self.worker.perform(life, "worktree", self._prepare_worktree)
            case "session_complete":
                self.worker.perform(life, "mail_check")
        attempt = int(self.record(life).data["attempt"]) + 1
        work_folder = AgentPaths(life, self.worker.client.settings).session(attempt)
        prompt, digest = store_prompt(work_folder, "do it")
        unread = [message.id for message in self.mailbox.unread(self.record(life))]
        letters = [
            message_id for message_id in unread if Mail.order(message_id) <= Mail.order(claimed)
        ]
        payload = {"prompt": prompt, "digest": digest, "claimed": claimed, "letters": letters}
        payload |= {"ahead": list(ahead)}
        self.worker.perform(life, "prompt", lambda _: Outcome("prompt_ready", payload))
        return self.record(life)

    def _prepare_worktree(self, work: EffectWork) -> Outcome:
        lives = self.mailbox.lives(name_of(work.record.id))
        payload: dict[str, Any] = {"host": self.host, "worktree": "/w", "branch": "b"}
        for life in lives[: lives.index(work.record.id)][-1:]:
            last = self.record(life).data
            payload |= {"acknowledged": last["acknowledged"], "ahead": last["ahead"]}
        return Outcome("worktree_ready", payload)

    def stop(self, life: str) -> str:
        """Stop a life and run its cleanup."""
        self.worker.client.fire(life, "operator_stop", {"reason": "the test is over"})
        self.clean_up(life)
        return life

    def clean_up(self, life: str) -> None:
        """Settle every effect of a stopped life."""
        self.worker.run_until_idle(
            life, **dict.fromkeys(("agent_cleanup", "session", "worktree"), _nothing)
        )

    def record(self, life: str) -> Record:
        return self.worker.record(life)

    def events(self, life: str, trigger: str) -> list[Event]:
        lines = self.worker.client.history(life)
        return [line for line in lines if isinstance(line, Event) and line.trigger == trigger]


def _session(work: EffectWork, trigger: str, payload: dict[str, Any]) -> Outcome:
    work.fire(Outcome("session_started", {"session_seq": work.record.data["session_seq"]}))
    return Outcome(trigger, payload)


def _nothing(work: EffectWork) -> None:
    del work

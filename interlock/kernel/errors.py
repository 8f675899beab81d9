"""Every error that the kernel raises, grouped by what the caller should do next."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.kernel.blame import blamed


class KernelError(Exception):
    """Base of every kernel error."""


class MachineDefectError(KernelError):
    """A table could strand a record. Raised at import; fix the table."""

    def __init__(self, machine: str, defects: Sequence[str]) -> None:
        super().__init__(f"the table of {machine} is defective: " + "; ".join(defects))
        self.defects = tuple(defects)


class TableFunctionError(KernelError):
    """A function of a table raised, so that nothing was decided and nothing was written.

    The sentence names the function, and the line of its file. Mend it.
    """

    def __init__(self, machine: str, function: str, failure: BaseException) -> None:
        super().__init__(f"{machine}: {function} raised {blamed(failure)}")
        self.machine, self.function = machine, function


class UnknownActorError(KernelError):
    """A row may be fired by somebody who does not exist. Raised at import; fix the table."""

    def __init__(self, actor: str, known: Sequence[str]) -> None:
        super().__init__(
            f"by({actor!r}) names nobody: give the Effect itself, or one of {', '.join(known)}"
        )
        self.actor = actor


class CallError(KernelError):
    """The call is wrong as it stands and changed nothing. Correct it; do not retry it.

    `is_early`: it depends on a record that does not exist, whose own message may come a little
    later. A message with such a call is read again some times before it is rejected.
    """

    is_early = False


class UnknownMachineError(CallError):
    """No machine has this name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        wanted = (
            f"there is no machine {name!r}"
            if name
            else ("no machine is named: name it, or submit a workflow itself with its data")
        )
        super().__init__(
            f"{wanted}; known machines: {', '.join(known)}; "
            "one of your own is added by `interlock up FILE`, or INTERLOCK_SYSTEMS"
        )
        self.name = name


class UnknownRecordError(CallError):
    """No record has this id: it was never created, or it was pruned."""

    def __init__(self, record_id: str) -> None:
        super().__init__(f"there is no record {record_id!r}; it was never created or is pruned")
        self.record_id = record_id


class EndedError(CallError):
    """A record whose result is wanted has ended without success. `data` are its last data."""

    def __init__(self, record_id: str, state: str, data: object) -> None:
        super().__init__(f"{record_id} has ended as {state}, which is no success")
        self.record_id, self.state, self.data = record_id, state, data


class UnreadableRecordError(KernelError, ValueError):
    """A record cannot be read: do what the sentence says.

    It is a ValueError, so that all that leaves out unreadable text leaves it out.
    """

    def __init__(self, record_id: str, fault: str, cure: str = "") -> None:
        cure = cure or (
            "it is damaged in the store, or a function of its machine is wrong: `interlock verify"
            f" {record_id}` says whether the store is damaged, and if so, keep its files and"
            " report it"
        )
        super().__init__(f"the record {record_id!r} cannot be read: {fault}; {cure}")
        self.record_id = record_id


class UnknownTriggerError(CallError):
    """The machine has no such trigger."""

    def __init__(self, machine: str, trigger: str, known: Sequence[str]) -> None:
        super().__init__(
            f"{machine} has no trigger {trigger!r}; its triggers: {', '.join(sorted(known))}"
        )
        self.trigger = trigger


class InvalidIdError(CallError):
    """The id cannot be a record's id."""

    def __init__(self, record_id: str, reason: str) -> None:
        super().__init__(f"{record_id!r} cannot be an id: {reason}")
        self.record_id = record_id


class InvalidPayloadError(CallError):
    """The payload does not have the declared shape. Nothing was written."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        super().__init__(f"{what} is invalid: " + "; ".join(problems))
        self.problems = tuple(problems)


class IllegalTransitionError(CallError):
    """The table has no row for this trigger in this state."""

    def __init__(self, machine: str, state: str, trigger: str, legal: Sequence[str]) -> None:
        can = f"legal here: {', '.join(legal)}" if legal else "nothing is legal here: it has ended"
        super().__init__(f"{machine}: {trigger} is not allowed in {state}; {can}")
        self.machine, self.state, self.trigger, self.legal = machine, state, trigger, tuple(legal)


class AnotherVersionError(KernelError):
    """Another version of a table, or of Interlock, can do it. Nothing was changed here.

    It is no CallError, because the call is right: an effect that raises it is given back uncounted,
    for a process of that version.
    """


class AnotherTableError(AnotherVersionError):
    """The workers work by another table than the caller. Run the caller with theirs."""

    def __init__(self, machine: str, own: str, applied: str, by: str) -> None:
        super().__init__(
            f"the table of {machine} in this process ({own}) is not the one by which the workers"
            f" work ({applied}, applied by {by}), so nothing was changed: start this process with"
            f" the code of {machine} that the workers have, or the workers with its code;"
            " `interlock plan` shows the difference"
        )
        self.machine, self.own, self.applied = machine, own, applied


class UnknownStateError(AnotherVersionError, LookupError):
    """A record has a state, or owes an effect, that the table of this process lacks.

    Nothing was changed. Another version of the table may have it: effects and timers are given back
    for a process that knows that version. It is a LookupError, so that what leaves out records that
    cannot be read leaves these out.
    """

    def __init__(self, machine: str, name: str, kind: str = "state") -> None:
        super().__init__(
            f"the table of {machine} has no {kind} {name!r}, so nothing can be done here with a"
            " record that has it: use the version of the table that has it, or say by renamed= or"
            " retired= what becomes of such records; `interlock plan` shows them"
        )
        self.machine, self.name, self.kind = machine, name, kind


class IgnoredError(IllegalTransitionError):
    """The table ignores this trigger in this state: that is noted, and nothing changes."""

    def __init__(
        self, machine: str, state: str, trigger: str, legal: Sequence[str], why: str
    ) -> None:
        super().__init__(machine, state, trigger, legal)
        self.args = (f"{machine}: {trigger} is ignored in {state}: {why}",)
        self.why = why


class GuardRefusedError(CallError):
    """The table has rows for this trigger in this state, and the guard of each refuses."""

    def __init__(self, machine: str, state: str, trigger: str, why: str) -> None:
        super().__init__(f"{machine}: {trigger} is refused in {state}: {why}")
        self.machine, self.state, self.trigger, self.why = machine, state, trigger, why


class MailRefusedError(CallError):
    """A record takes no mail: it has no inbox, has ended, or its inbox is full."""

    def __init__(self, record_id: str, why: str) -> None:
        super().__init__(f"{record_id} takes no mail: {why}")
        self.record_id, self.why = record_id, why


class MissedError(CallError):
    """The log no longer goes back to where a follower stopped. Follow it again from its start."""

    def __init__(
        self, root: str, after: str, advice: str = "follow it again from its start"
    ) -> None:
        super().__init__(
            f"what came after {after} in {root} is no longer kept completely; {advice}"
        )
        self.root, self.after = root, after


class IdTakenError(CallError):
    """A record with this id exists, and was created with another payload. Choose another id."""

    code = "id_taken"

    def __init__(self, record_id: str) -> None:
        super().__init__(
            f"id_taken: the name {record_id!r} is taken: it was submitted before with other fields;"
            " choose another name"
        )
        self.record_id = record_id


class AnotherChildError(IdTakenError):
    """A parent has created this child already, from another payload. The first one stays."""

    def __init__(self, record_id: str) -> None:
        CallError.__init__(
            self,
            f"id_taken: {record_id!r} is a child that its parent has created already from other "
            "fields; what a child is created from is fixed when its parent begins to create it",
        )
        self.record_id = record_id


class QuotaError(CallError):
    """There are as many records as there may be. Nothing was created; try again when some end."""

    def __init__(self, live: int, wanted: int, maximum: int) -> None:
        super().__init__(
            f"{live} records have not ended, and INTERLOCK_RECORDS_MAX={maximum} leaves no room for"
            f" {wanted} more: wait until work ends, cancel some, or raise the setting"
        )
        self.live, self.wanted, self.maximum = live, wanted, maximum


class OpIdReusedError(CallError):
    """The op-id was used for another call on the same record. Use a new one for each call."""

    def __init__(self, op_id: str) -> None:
        super().__init__(f"op-id {op_id!r} was used for another call; use a fresh one per call")
        self.op_id = op_id


class StaleDecisionError(CallError):
    """The decision is about a proposal that is no longer the current one. Read the record again."""

    def __init__(self, seen: str, current: str | None, *, of_person: bool = True) -> None:
        if of_person:
            now = f"the current one is {current}" if current else "nothing waits for a person now"
            super().__init__(f"the decision was about proposal {seen}, but {now}; look again")
        else:
            super().__init__(f"the record has moved on since it was {seen}: read it again")
        self.seen, self.current = seen, current


class ClosedParentError(CallError):
    """A child cannot be created: its parent has ended, or has created all its children."""

    def __init__(self, parent: str) -> None:
        super().__init__(
            f"{parent!r} accepts no more children: it has ended, or has created them all"
        )
        self.parent = parent


class NewerSchemaError(AnotherVersionError):
    """The record was written by a newer version of Interlock. Upgrade this process."""

    def __init__(self, record_id: str, schema: int, known: int) -> None:
        super().__init__(
            f"{record_id!r} has schema {schema}, this process knows up to {known}; upgrade it"
        )
        self.record_id = record_id


class TokenRefusedError(CallError):
    """An access token is not valid: it is unknown, revoked or expired."""


class ForbiddenError(CallError):
    """The caller's roles do not allow this."""


class StrandedError(KernelError):
    """Records have no place in the tables of this process, which therefore does not start."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(
            f"{'; '.join(problems)}. `interlock plan`, with the same files, shows all that differs;"
            " this process has changed nothing"
        )
        self.problems = tuple(problems)


class ConflictError(KernelError):
    """Other callers changed the record first, at each of many attempts. Try again."""


class HeldError(KernelError):
    """The record cannot be taken now: it is paused, or another holds what it needs. Try later.

    `needs` are the names that it needs, where another record of its family holds one of them.
    """

    def __init__(self, record_id: str, why: str, needs: Sequence[str] = ()) -> None:
        super().__init__(f"{record_id!r} cannot be taken now: {why}")
        self.record_id, self.why, self.needs = record_id, why, tuple(needs)


class FencedError(KernelError):
    """The warrant of this commit is void: another process has the work. Stop it here."""

    def __init__(self, record_id: str, warrant: str) -> None:
        super().__init__(f"{record_id!r} refused a stale commit ({warrant}): its work has moved on")
        self.record_id = record_id


class StoreError(KernelError):
    """The store cannot serve now, and may or may not have written. Repeat with the same op-id."""


class StoreDownError(StoreError):
    """The store does not answer."""


class StoreFullError(StoreError):
    """The store has reached maxmemory and refuses to write."""


class StoreReadOnlyError(StoreError):
    """The store refuses to write: replica, disk error, or still loading."""


class StoreDeniedError(StoreDownError):
    """The store refuses this user, the password, or a command that the user may not use."""


class StoreMisconfiguredError(StoreError):
    """The store is configured so that it could lose data. Change its configuration."""


class StoreFormatError(StoreMisconfiguredError):
    """The store has another format than this version of Interlock reads and writes."""

    def __init__(
        self, prefix: str, written: tuple[int, int], known: tuple[int, int], version: str = ""
    ) -> None:
        number, partitions = written
        has = f"has format {number} in {partitions}"
        if number < 0:
            has = f"is being migrated from format {-number}, or back to it, in {partitions}"
            remedy = "Let `interlock apply` end, or repeat it if it was killed"
            if version:
                remedy = f"{remedy}: it is of Interlock {version}"
        elif number > known[0]:
            remedy = "Install the newer version of Interlock that wrote it"
            if version:
                remedy = f"Interlock {version} has written it: install interlock>={version}"
        elif partitions == known[1] and number:
            remedy = (
                "Stop all processes of the version that wrote it, take a copy of the store, and run"
                " `interlock apply`, or start the version of Interlock that wrote the store; or"
                " begin an empty deployment beside it with another prefix, such as"
                " `INTERLOCK_PREFIX=new interlock up`"
            )
        else:
            remedy = (
                "Start the version of Interlock that wrote the store, or begin an empty deployment"
                " beside it with another prefix, such as `INTERLOCK_PREFIX=new interlock up`"
            )
        super().__init__(
            f"the store with the prefix {prefix!r} {has} partitions, and this version of Interlock"
            f" reads and writes format {known[0]} in {known[1]}; this process has changed nothing."
            f" {remedy}"
        )
        self.written, self.known = written, known

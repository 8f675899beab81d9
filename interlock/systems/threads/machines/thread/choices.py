"""What the choices of a thread's cards say, and the answers that they suggest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock import Level
from interlock.system.tables import ChoiceWords, action_line
from interlock.systems.threads.machines.thread.corrections import is_call
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.questions import ACTION, proposed

Words = Mapping[str, ChoiceWords]  # by choice

DROP = ChoiceWords("Drop it: nothing is done")
HINT = ChoiceWords("Think again, with a hint")
OF_PROPOSAL: Words = {"begin": ChoiceWords("Begin with it"), "drop": DROP}
OF_INTENT: Words = {
    "accept": ChoiceWords("Yes, that is wanted"),
    "edit": ChoiceWords("No, something else is wanted"),
    "redirect": HINT,
}
OF_CONTEXT: Words = {
    "accept": ChoiceWords("Yes, these belong to it"),
    "edit": ChoiceWords("No, other items belong to it"),
    "redirect": HINT,
}
OF_REVIEW: Words = {
    "done": ChoiceWords("Yes, it is right"),
    "redirect": ChoiceWords("No, it has to be different"),
    "drop": ChoiceWords("Leave it as it is, and ask no more"),
}
OF_CLEANUP_FAILURE: Words = {
    "retry": ChoiceWords("Try again to tidy up"),
    "accept": ChoiceWords("Leave it where it is"),
}


def of_consent(data: ThreadData) -> Words:
    """Return the words of the choices where an action waits for consent."""
    action = proposed(data, ACTION)
    is_final = Level(str(action.get("irreversibility"))) is Level.HIGH
    final = f"This cannot be undone: {action_line(action)}." if is_final else ""
    return {
        "approve": ChoiceWords("Yes, do it", final),
        "edit": ChoiceWords("Change it"),
        "reject": ChoiceWords("No, drop it: nothing is done"),
    }


def of_clarification(phase: str) -> Callable[[ThreadData], Words]:
    """Return the words where a phase came to nothing; they suggest what was nearest."""

    def words(data: ThreadData) -> Words:
        failed = data.get("failure")
        options = failed.get("options") if failed else None
        nearest = options or proposed(data, phase).get("options") or ()
        suggests = {one["says"]: {"text": one["text"]} for one in nearest}
        return {"provide": ChoiceWords("Answer in words", suggests=suggests), "skip": DROP}

    return words


def of_redirect(data: ThreadData) -> Words:
    """Return the words after a failure; they suggest the call that failed, with its values."""
    action = proposed(data, ACTION)
    call = {"capability": action.get("capability"), "parameters": action.get("parameters") or {}}
    suggests = {"Try it again, the same": call} if is_call(action) else {}
    return {"provide": ChoiceWords("Do something else", suggests=suggests), "skip": DROP}

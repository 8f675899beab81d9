"""What the choices of a thread's cards say, and the answers that its cards suggest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from interlock import Level
from interlock.system.tables import ChoiceWords, SuggestedAnswer, action_line
from interlock.systems.threads.machines.thread.corrections import is_call
from interlock.systems.threads.machines.thread.data import ThreadData
from interlock.systems.threads.machines.thread.questions import (
    ACTION,
    CONTEXT,
    INTENT,
    proposed,
)

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
OF_CLARIFICATION: Words = {"provide": ChoiceWords("Answer in words"), "skip": DROP}
OF_REVIEW: Words = {
    "done": ChoiceWords("Yes, it is right"),
    "redirect": ChoiceWords("No, it has to be different"),
    "drop": ChoiceWords("Leave it as it is, and ask no more"),
}
OF_REDIRECT: Words = {"provide": ChoiceWords("Do something else"), "skip": DROP}
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


def nearest(phase: str) -> Callable[[ThreadData], Iterator[SuggestedAnswer]]:
    """Suggest what was nearest to a request that was not understood in a phase."""

    def suggested(data: ThreadData) -> Iterator[SuggestedAnswer]:
        failed = data.get("failure")
        options = failed.get("options") if failed else None
        for one in options or proposed(data, phase).get("options") or ():
            yield SuggestedAnswer(one["says"], "provide", {"text": one["text"]})

    return suggested


def same_again(data: ThreadData) -> Iterator[SuggestedAnswer]:
    """Suggest the call that failed, with exactly its values."""
    action = proposed(data, ACTION)
    if is_call(action):
        call = {"capability": action["capability"], "parameters": action.get("parameters") or {}}
        yield SuggestedAnswer("Try it again, the same", "provide", call)


NEAREST: Mapping[str, Callable[[ThreadData], Iterator[SuggestedAnswer]]] = {
    phase: nearest(phase) for phase in (INTENT, CONTEXT, ACTION)
}

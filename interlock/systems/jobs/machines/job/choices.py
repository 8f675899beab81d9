"""What the choices of a job's cards say."""

from __future__ import annotations

from interlock.system.tables import ChoiceWords

ENDS = "The job is cancelled for good."
CANCEL = ChoiceWords("Cancel it", ENDS)
OF_DRAFT = {"activate": ChoiceWords("Start it"), "cancel": CANCEL}
OF_PENDING = {
    "proceed": ChoiceWords("Run it without them"),
    "run": ChoiceWords("Run it now"),
    "cancel": CANCEL,
}
OF_SUSPENDED = {"resume": ChoiceWords("Resume it"), "cancel": CANCEL}
OF_PAUSED = {"unpause": ChoiceWords("Go on with it"), "cancel": CANCEL}
OF_REVIEW = {"run": ChoiceWords("Review it now"), "cancel": CANCEL}
OF_INTERVENTION = {
    "resubmit": ChoiceWords("The cause is repaired: do it again"),
    "review": ChoiceWords("The work is good: review it"),
    "terminate": ChoiceWords("End it", ENDS),
}
OF_SIGN_OFF = {
    "approve": ChoiceWords("Approve: it is done"),
    "reject": ChoiceWords("No, do it again"),
    "cancel": CANCEL,
}

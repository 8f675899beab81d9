"""What the choices of a job's cards say."""

from __future__ import annotations

from interlock.system.tables import ChoiceWords, fixed

ENDS = "The job is cancelled for good."
CANCEL = ChoiceWords("Cancel it", ENDS)
OF_DRAFT = fixed({"activate": ChoiceWords("Start it"), "cancel": CANCEL})
OF_PENDING = fixed(
    {
        "proceed": ChoiceWords("Run it without them"),
        "run": ChoiceWords("Run it now"),
        "cancel": CANCEL,
    }
)
OF_SUSPENDED = fixed({"resume": ChoiceWords("Resume it"), "cancel": CANCEL})
OF_PAUSED = fixed({"unpause": ChoiceWords("Go on with it"), "cancel": CANCEL})
OF_REVIEW = fixed({"run": ChoiceWords("Review it now"), "cancel": CANCEL})
OF_INTERVENTION = fixed(
    {
        "resubmit": ChoiceWords("The cause is repaired: do it again"),
        "review": ChoiceWords("The work is good: review it"),
        "terminate": ChoiceWords("End it", ENDS),
    }
)
OF_SIGN_OFF = fixed(
    {
        "approve": ChoiceWords("Approve: it is done"),
        "reject": ChoiceWords("No, do it again"),
        "cancel": CANCEL,
    }
)

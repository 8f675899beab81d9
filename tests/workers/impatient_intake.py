"""The deployed intake app in a hurry.

It reads a message that has to wait again after 0.2 seconds. If VISIBILITY_S is set, it redelivers
an unacknowledged message after so long instead of a minute. If DIES_ONCE is set, it kills itself
at the first message.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from interlock.workers import intake, producer_message
from interlock.workers.engine import consumer

app = intake.app
intake.HELD_S = consumer.GIVE_BACK_S = 0.2
dies_once = os.environ.get("DIES_ONCE")


def die(*_: object) -> None:
    """Kill this process, the first time that a process of the test comes here."""
    Path(str(dies_once)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


if "VISIBILITY_S" in os.environ:
    app.conf.broker_transport_options |= {"visibility_timeout": int(os.environ["VISIBILITY_S"])}
if dies_once and not Path(dies_once).exists():
    producer_message.accept = die  # type: ignore[assignment]

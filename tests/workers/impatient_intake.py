"""The deployed intake app in a hurry.

It redelivers an unacknowledged message after two seconds instead of a minute, reads one that has to
wait again after 0.2 seconds, and kills itself at the first message if DIES_ONCE is set.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from interlock.workers import intake, producer_message
from interlock.workers.engine import consumer

app = intake.app
app.conf.broker_transport_options |= {"visibility_timeout": 2}
intake.HELD_S = consumer.GIVE_BACK_S = 0.2
dies_once = os.environ.get("DIES_ONCE")


def die(*_: object) -> None:
    """Kill this process, the first time that a process of the test comes here."""
    Path(str(dies_once)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


if dies_once and not Path(dies_once).exists():
    producer_message.accept = die  # type: ignore[assignment]

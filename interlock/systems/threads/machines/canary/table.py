"""The canary's table: that of a thread, under another name.

With a machine of its own, a canary is not counted in the lists and metrics of threads.
"""

from __future__ import annotations

from dataclasses import replace

from interlock.systems.threads.machines.thread.table import THREAD

CANARY = replace(THREAD, name="canary")

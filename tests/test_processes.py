"""What tests learn of processes is true, and those that they kill end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from tests.processes import PROC, is_alive, kill_group, kill_marked, marked, start_of
from tests.waiting import until

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


def test_a_process_that_hides_behind_init_is_found_and_ended(tmp_path: Path) -> None:
    owner = uuid4().hex
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('pid.part', 'w').write(str(os.getpid()))\n"
        "    os.rename('pid.part', 'pid')\n"
        "    time.sleep(600)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env={"HIDDEN": owner}, check=True)
    until((tmp_path / "pid").exists, what="the hidden process is up")
    process_id = int((tmp_path / "pid").read_text())

    assert process_id in marked("HIDDEN", owner)
    assert process_id in kill_marked("HIDDEN", owner, patience_s=0)
    until(lambda: not is_alive(process_id), what="the hidden process is gone")


def test_a_process_is_alive_until_its_last_thread_has_ended() -> None:
    # It ends its first thread only; the other one runs on.
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        stat = PROC / str(process.pid) / "stat"
        until(lambda: ") Z " in stat.read_text(), what="its first thread has ended", within_s=50)

        others_live = is_alive(process.pid)
        process.kill()
        until(lambda: not is_alive(process.pid), what="all its threads have ended")
    assert others_live


def test_a_process_that_has_not_made_its_group_yet_is_killed() -> None:
    with subprocess.Popen(SLEEP) as process:
        kill_group(process.pid, start_of(process.pid))
    assert process.returncode == -signal.SIGKILL


def test_a_group_whose_leader_is_another_process_with_the_same_id_is_left_alone() -> None:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        kill_group(process.pid, start_of(process.pid) - 1)
        process.terminate()
    assert process.returncode == -signal.SIGTERM

"""A failed test leaves no process behind; servers of fixtures are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests import descendants
from tests.waiting import eventually

_PARENT = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); sys.stdin.read()"


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found through /proc and prctl(2), which are Linux's")
def test_what_a_killed_program_had_started_ends_and_what_a_living_one_has_started_goes_on() -> None:
    killed, living = (
        subprocess.Popen(
            (sys.executable, "-c", _PARENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for _ in range(2)
    )
    assert killed.stdout is not None
    assert living.stdout is not None
    orphan, child = int(killed.stdout.readline()), int(living.stdout.readline())
    try:
        killed.kill()
        killed.wait()
        eventually("its child is an orphan", lambda: orphan in descendants.orphans())
        assert orphan in descendants.end_orphans()
        with pytest.raises(ProcessLookupError):
            os.kill(orphan, 0)
        os.kill(child, 0)
    finally:
        os.killpg(living.pid, signal.SIGKILL)
        for each in (killed, living):
            each.communicate()


def test_programs_listen_to_ctrl_c_however_the_tests_were_started() -> None:
    """A shell without job control has what it starts in the background ignore SIGINT."""
    asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run((sys.executable, "-c", asked), capture_output=True, text=True).stdout == "True\n"

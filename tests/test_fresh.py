"""What `make fresh` measures is measured as a new user would meet it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fresh import Measured, environment, run


def test_nothing_that_is_cached_or_configured_reaches_a_new_user(tmp_path: Path) -> None:
    inherited = {
        "PATH": "/bin",
        "HOME": "/home/somebody",
        "XDG_CACHE_HOME": "/cache",
        "GOMODCACHE": "/modules",
        "KUBECONFIG": "/config",
        "SITUATE_NAMESPACE": "shop",
        "MAKEFLAGS": "s",
        "ARGS": "--only test",
        "https_proxy": "here:1",
    }
    assert environment(tmp_path, inherited) == {"PATH": "/bin", "https_proxy": "here:1", "HOME": str(tmp_path)}


def test_the_first_chapter_and_the_end_of_a_command_are_timed_apart(tmp_path: Path) -> None:
    program = (
        "import sys; print('installing', flush=True); print('1. it begins', flush=True); sys.stdin.read(); exit(3)"
    )
    ran = run((sys.executable, "-c", program), tmp_path, tmp_path)
    assert ran.code == 3
    assert 0 < ran.first_chapter_s < ran.spent_s


def test_what_takes_longer_than_its_limit_is_said() -> None:
    assert str(Measured("make test", 721.0, 720.0)).endswith("TOO SLOW")
    assert str(Measured("make test", 719.0, 720.0)).endswith("ok")

"""What a stranger's machine relies on: the lock files, and the two commands of CI."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt", "deploy/requirements.txt"])
def test_every_requirement_is_pinned_by_hashes_and_none_names_a_host(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines
    assert not [line for line in lines if not re.match(r"[A-Za-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
    assert "://" not in text
    assert "--index" not in text


def test_what_builds_the_package_is_locked_with_all_that_it_needs() -> None:
    locked, needed = (pins(name) for name in ("requirements-build.txt", "requirements.txt"))
    assert locked.items() <= needed.items(), "run: make lock"
    reached, coming = set[str](), ["editables", "hatchling"]
    while coming:
        name = coming.pop()
        if name not in reached:
            reached.add(name)
            asked = [Requirement(each) for each in requires(name) or ()]
            coming += [canonicalize_name(each.name) for each in asked if not each.marker or each.marker.evaluate()]
    assert reached <= locked.keys()


def pins(name: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(each): version for each, version in found}


def test_ci_calls_the_two_commands_and_builds_servers_meanwhile() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    called = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    servers = "nice -n 19 make control-plane >/dev/null 2>&1 &"
    assert called == ["make setup", servers, "make test", "exec make verify"]

"""The key of the cache: it must change with anything that changes the programs."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.controlplane.components import BY_NAME, COMPONENTS, HERE, KUBERNETES, MODULE_FILES, key


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for name in MODULE_FILES:
        shutil.copy(HERE / name, tmp_path / name)
    return tmp_path


def test_same_sources_same_key(sources: Path) -> None:
    assert key("go1.26.8", sources=sources) == key("go1.26.8")


@pytest.mark.parametrize("name", MODULE_FILES)
def test_key_follows_each_module_file(sources: Path, name: str) -> None:
    with (sources / name).open("a") as text:
        text.write("\n")
    assert key("go1.26.8", sources=sources) != key("go1.26.8")


def test_key_follows_the_compiler_and_each_version() -> None:
    newer = [dataclasses.replace(c, release="v9.9.9") if c.name == "kwok" else c for c in COMPONENTS]
    assert len({key("go1.26.8"), key("go1.27.3"), key("go1.26.8", components=newer)}) == 3


def test_versions_agree_with_the_module() -> None:
    text = (HERE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES}" in text
    assert f"go.etcd.io/etcd/server/v3 v{BY_NAME['etcd'].version}" in text


def test_programs_tell_their_version() -> None:
    command = " ".join(BY_NAME["kube-apiserver"].command(Path("go"), Path("kube-apiserver")))
    assert f"version.gitVersion=v{KUBERNETES}" in command

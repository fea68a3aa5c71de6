"""The key of the cache: it must change with anything that changes the programs."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.controlplane.components import BY_NAME, CONTROL_PLANE, HERE, KUBERNETES, MODULE_FILES, Module


@pytest.fixture
def copy(tmp_path: Path) -> Module:
    for name in MODULE_FILES:
        shutil.copy(HERE / name, tmp_path / name)
    return dataclasses.replace(CONTROL_PLANE, folder=tmp_path)


def test_same_sources_same_key(copy: Module) -> None:
    assert copy.key("go1.26.8") == CONTROL_PLANE.key("go1.26.8")


@pytest.mark.parametrize("name", MODULE_FILES)
def test_key_follows_each_module_file(copy: Module, name: str) -> None:
    with (copy.folder / name).open("a") as text:
        text.write("\n")
    assert copy.key("go1.26.8") != CONTROL_PLANE.key("go1.26.8")


def test_key_follows_the_compiler_and_each_version() -> None:
    kwok = dataclasses.replace(BY_NAME["kwok"], release="v9.9.9")
    newer = dataclasses.replace(CONTROL_PLANE, components=(*CONTROL_PLANE.components[:-1], kwok))
    assert len({CONTROL_PLANE.key("go1.26.8"), CONTROL_PLANE.key("go1.27.3"), newer.key("go1.26.8")}) == 3


def test_versions_agree_with_the_module() -> None:
    text = (HERE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES}" in text
    assert f"go.etcd.io/etcd/server/v3 v{BY_NAME['etcd'].version}" in text


def test_programs_tell_their_version() -> None:
    command = " ".join(BY_NAME["kube-apiserver"].command(Path("go"), Path("kube-apiserver")))
    assert f"version.gitVersion=v{KUBERNETES}" in command

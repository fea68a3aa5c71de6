"""Finding and building programs, with a compiler that is a shell script."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import build as building
from tests.controlplane.build import Programs, cache_root, locate
from tests.controlplane.components import BY_NAME, COMPONENTS, CONTROL_PLANE
from tests.controlplane.errors import ControlPlaneError, NotFetched
from tests.controlplane.toolchain import Go, parse


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def compiler(folder: Path, text: str) -> Go:
    return Go(program(folder / "go", text), "go1.26.8")


def compile_etcd(folder: Path, script: str) -> list[str]:
    """One build of etcd by a compiler that runs `script`; returns what was said."""
    said: list[str] = []
    environment = {"PATH": "/usr/bin:/bin"}
    building._compile(
        BY_NAME["etcd"], CONTROL_PLANE, compiler(folder, script), folder / "cache", environment, said.append
    )
    return said


def test_assets_come_first_and_the_cache_fills_in(tmp_path: Path) -> None:
    assets, cache = tmp_path / "assets", tmp_path / "cache"
    program(assets / "etcd")
    program(cache / "etcd")
    program(cache / "kwok")
    programs = Programs(assets, cache)
    assert programs.path("etcd") == assets / "etcd"
    assert programs.path("kwok") == cache / "kwok"
    assert [c.name for c in programs.missing(("etcd", "kube-apiserver", "kwok"))] == ["kube-apiserver"]
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver .* is not built: run make control-plane"):
        programs.path("kube-apiserver")


def test_complete_assets_need_no_compiler(tmp_path: Path) -> None:
    for component in COMPONENTS:
        program(tmp_path / component.name)
    assert locate({"KUBEBUILDER_ASSETS": str(tmp_path)}).missing(tuple(BY_NAME)) == []


def test_assets_that_are_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneError, match=r"KUBEBUILDER_ASSETS names .* which is no folder"):
        locate({"KUBEBUILDER_ASSETS": str(tmp_path / "nowhere")})


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        pytest.param({"XDG_CACHE_HOME": "/var/cache/me"}, "/var/cache/me/situate/control-plane", id="as told"),
        pytest.param({"HOME": "/home/me"}, "/home/me/.cache/situate/control-plane", id="default"),
        pytest.param(
            {"HOME": "/home/me", "XDG_CACHE_HOME": "x"}, "/home/me/.cache/situate/control-plane", id="relative: ignored"
        ),
    ],
)
def test_cache_folder(environment: dict[str, str], want: str) -> None:
    assert cache_root(environment) == Path(want)


def test_a_program_is_built_whole(tmp_path: Path) -> None:
    # "-o FILE" stands before the package, the last argument; cgo is off.
    said = compile_etcd(
        tmp_path, 'for a in "$@"; do [ "$p" = -o ] && out=$a; p=$a; done; echo "$CGO_ENABLED" >$out; chmod +x $out'
    )
    assert (tmp_path / "cache" / "etcd").read_text() == "0\n"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["etcd", "etcd.log"]
    assert said[-1].startswith("control plane: etcd built in ")


@pytest.mark.parametrize(
    ("script", "kind", "want"),
    [
        pytest.param(
            "echo 'go: m@v1: Get \"https://me:secret@proxy.example/m\": dial tcp: connection refused'; exit 1",
            NotFetched,
            r"could not be fetched .*//proxy\.example.*Set GOPROXY .* or KUBEBUILDER_ASSETS",
            id="no module proxy",
        ),
        pytest.param(
            "echo 'a.go:1: syntax error'; exit 2",
            ControlPlaneError,
            r"etcd was not built: a\.go:1: syntax error\. .*etcd\.log",
            id="error",
        ),
        pytest.param("exit 0", ControlPlaneError, "exit code 0", id="nothing made"),
    ],
)
def test_a_failed_build_leaves_nothing_and_says_why(
    tmp_path: Path, script: str, kind: type[ControlPlaneError], want: str
) -> None:
    with pytest.raises(ControlPlaneError, match=want) as caught:
        compile_etcd(tmp_path, script)
    assert type(caught.value) is kind
    assert "secret" not in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["etcd.log"]


@pytest.mark.parametrize(
    ("text", "want"),
    [("go1.26.8", (1, 26)), ("go1.27rc1", (1, 27)), ("devel", (0, 0)), ("", (0, 0)), ("go2.0", (2, 0))],
)
def test_versions_of_go(text: str, want: tuple[int, int]) -> None:
    assert parse(text) == want

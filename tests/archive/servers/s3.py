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
        data, attributes = folder / "data", folder / "attributes"
        (data / BUCKET).mkdir(parents=True)
        attributes.mkdir()
        self.may_be_killed = _has_attributes(data)
        """Attributes in files of their own are written apart from the object, and a kill may come between."""
        beside = () if self.may_be_killed else ("--sidecar", str(attributes))
        self._port = ReservedPort()
        self.endpoint = f"http://127.0.0.1:{self._port.number}"
        self.process = Process(
            "versitygw",
            (
                *(str(program), "--port", f"127.0.0.1:{self._port.number}", "--region", REGION, "--quiet"),
                *("--keep-alive", "posix", *beside, str(data)),
            ),
            folder / "versitygw.log",
            environment={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        )

    @property
    def port(self) -> int:
        return self._port.number

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


def _has_attributes(folder: Path) -> bool:
    """Whether its file system keeps extended attributes of users."""
    try:
        os.setxattr(folder, "user.situate", b"1")
    except (OSError, AttributeError):  # the system does not, or Python has no such call here
        return False
    return True

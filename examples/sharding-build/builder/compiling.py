"""One build, in a process of its own: `python -m builder.compiling FOLDER`, a line of JSON in, a line of JSON out.

It has its own process group, and ends with everything it has started as soon as its standard input does: whoever asked
for it is gone then, and somebody else will build.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal sources make equal files
_SAID = 2000  # characters of a log that are kept in an object


def built(folder: Path, sources: Mapping[str, str], main: str) -> dict[str, Any]:
    """What became of it: `reason` and `log`, and of a success `file`, `digest` and `bytes`."""
    for name, text in sources.items():
        (folder / name).write_text(text)
    for name, text in sources.items():
        try:
            compile(text, name, "exec")
        except (SyntaxError, ValueError) as error:
            return {"reason": "DoesNotCompile", "log": f"{name}: {error}"[-_SAID:]}
    if any(name.startswith("test") for name in sources):
        tested = subprocess.run(
            [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, text=True, check=False
        )
        if tested.returncode != 0:
            return {"reason": "TestsFailed", "log": tested.stderr[-_SAID:]}
    application = folder / "application.pyz"
    module, _, function = main.partition(":")
    with application.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as packed:
            for name, text in sorted(sources.items()):
                if not name.startswith("test"):
                    packed.writestr(zipfile.ZipInfo(name, _EPOCH), text)
            packed.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), f"from {module} import {function}\n{function}()\n")
    content = application.read_bytes()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"reason": "Built", "file": str(application), "digest": digest, "bytes": len(content)}


def _end_with_parent() -> None:
    """Reads until nobody holds the other end."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(json.dumps(built(Path(sys.argv[1]), asked["sources"], asked["main"])), flush=True)
    os._exit(0)  # a thread still reads


if __name__ == "__main__":
    main()

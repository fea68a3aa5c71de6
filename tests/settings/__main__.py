"""`python -m tests.settings` writes the pages of settings; with `--check` it only says whether they are current."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.settings.page import files

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    stale = [
        (file, text) for file, text in files(ROOT) if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    for file, text in stale:
        if "--check" in arguments:
            print(f"docs/{file.name} does not say what the types of the settings say; run: python -m tests.settings")
        else:
            file.write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

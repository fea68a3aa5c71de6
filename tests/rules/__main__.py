"""`python -m tests.rules` writes docs/contributing/rules.md; with `--check` it only says whether the page is
current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.rules.page import page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contributing" / "rules.md"


def main(arguments: list[str]) -> int:
    text = page(ROOT)
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/contributing/rules.md does not say what the tests' marks say; run: python -m tests.rules")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

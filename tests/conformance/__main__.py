"""`python -m tests.conformance [DIR …]`: runs vector files and prints a line a file."""

from __future__ import annotations

import sys

from tests.conformance.runner import main

sys.exit(main(sys.argv[1:]))

"""`python -m situate.testing.scheduler FIRST COUNT`: histories of the scheduler from these seeds, and what happened."""

from __future__ import annotations

import sys
from collections import Counter

from situate.testing.scheduler.history import generate
from situate.testing.scheduler.run import play, shortened


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not all(each.isdecimal() for each in arguments):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    first, count = map(int, arguments)
    happened: Counter[str] = Counter()
    for seed in range(first, first + count):
        history = generate(seed)
        played = play(seed, history)
        happened.update(played.happened)
        if played.breach is not None:
            steps = "\n".join(map(repr, shortened(seed, history)))
            sys.stdout.write(f"seed {seed}: {played.breach}\nshortened:\n{steps}\n")
            return 1
    for what, times in sorted(happened.items()):
        sys.stdout.write(f"{times:8} {what}\n")
    sys.stdout.write(f"{count} histories held\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Counts in sentences: `1 node`, `2 nodes`."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """The number and the noun in its form: `1 pod`, `2 pods`; `plural` where an s is not enough (`2 entries`)."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"

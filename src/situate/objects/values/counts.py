"""Counts in sentences: `1 node`, `2 nodes`."""

from __future__ import annotations


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return the number and the noun in the right form: `1 pod`, `2 pods`. Pass irregular plurals: `2 entries`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"

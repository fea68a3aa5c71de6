"""Numbers of things, as sentences say them."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plural_is(number: int, noun: str) -> str:
    """`1 pod is`, `2 pods are`."""
    return f"{plural(number, noun)} {'is' if number == 1 else 'are'}"

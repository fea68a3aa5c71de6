"""Checks the address of a server or a proxy, and removes its secrets for messages."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit


def is_address(url: str, schemes: Collection[str]) -> bool:
    """Whether the text is a URL that names a host, without parts that would be lost on the way."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number, or brackets that are not closed
        return False
    # urlsplit drops line breaks
    return named and not parts.query and not parts.fragment and " " not in url and url.isprintable()


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine by an address that no other machine reaches."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_user(url: str) -> bool:
    """Whether an address contains a user."""
    return "@" in urlsplit(url).netloc


def without_user(url: str) -> str:
    """Hide the user for messages. In a malformed URL, the text before the last `@` may be a password."""
    before, at, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    if not at:
        return url
    return f"{scheme}://…@{rest}" if mark else f"…@{rest}"

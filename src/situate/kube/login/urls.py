"""What may stand as the address of a server or a proxy, and how messages show one."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit


def is_address(url: str, schemes: Collection[str]) -> bool:
    """Whether it is a URL that names a host, and nothing that would be lost on the way there."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is no number, brackets that are not closed
        return False
    # urlsplit drops line breaks
    return named and not parts.query and not parts.fragment and " " not in url and url.isprintable()


def is_loopback(url: str) -> bool:
    """Whether it names this machine by an address that no other one reaches."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def has_user(url: str) -> bool:
    """Of an address: whether it also says who asks."""
    return "@" in urlsplit(url).netloc


def without_user(url: str) -> str:
    """As messages may show it. Where it is malformed, what stands before the last `@` may be a password."""
    before, at, rest = url.rpartition("@")
    scheme, mark, _ = before.partition("://")
    if not at:
        return url
    return f"{scheme}://…@{rest}" if mark else f"…@{rest}"

"""Who is asking: tokens, impersonation, and the owner of the machine where there is neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from situate.cluster.errors.field_errors import Refused
from situate.cluster.storage.effects import ADMIN, Identity

_EXTRA: Final = "impersonate-extra-"
"""What follows in the name of a header is the key, percent-encoded."""


class Unauthorized(Exception):
    """The request is from nobody that the server knows."""

    def __init__(self) -> None:
        super().__init__("unauthorized")
        self.refused: Final = Refused(401, "Unauthorized", "Unauthorized")


class Identities:
    """The bearers of tokens.

    Without a token a request is the administrator's unless `tokens_needed`: kubectl sends none over plain HTTP, and
    whoever can reach a loopback address owns the machine. A web page that a browser was tricked into sending here is
    stopped by its Host header.
    """

    def __init__(
        self, bearer: Callable[[str], Identity | None], hosts: frozenset[str] | None, *, tokens_needed: bool
    ) -> None:
        """`bearer`: whose a token is; `hosts` are the names by which the server may be called; None for any."""
        self._bearer = bearer
        self._hosts = hosts
        self._tokens_needed = tokens_needed

    def of(self, headers: Mapping[str, str]) -> Identity:
        """Raises `Unauthorized`."""
        if self._hosts is not None and _host(headers.get("host", "")) not in self._hosts:
            raise Unauthorized
        given = headers.get("authorization")
        if given is None:
            if self._tokens_needed:
                raise Unauthorized
            identity = ADMIN
        else:
            scheme, _, token = given.partition(" ")
            known = self._bearer(token.strip()) if scheme.lower() == "bearer" else None
            if known is None:
                raise Unauthorized
            identity = known
        user = headers.get("impersonate-user")
        if user is None:
            return identity
        groups = tuple(group.strip() for group in headers.get("impersonate-group", "").split(",") if group.strip())
        extra = {
            unquote(name.removeprefix(_EXTRA)): (value,) for name, value in headers.items() if name.startswith(_EXTRA)
        }
        return Identity(user, (*groups, "system:authenticated"), headers.get("impersonate-uid", ""), extra)


def _host(value: str) -> str:
    """The name in a Host header, without port and brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0]

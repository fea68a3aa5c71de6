"""Authenticate clients: tokens, impersonation, and the administrator for requests without either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

from situate.cluster.errors.field_errors import Refused
from situate.cluster.storage.effects import ADMIN, Identity

_EXTRA: Final = "impersonate-extra-"
"""Prefix of a header name; the percent-encoded key follows."""


class Unauthorized(Exception):
    """The client of the request is unknown."""

    def __init__(self) -> None:
        super().__init__("unauthorized")
        self.refused: Final = Refused(401, "Unauthorized", "Unauthorized")


class Authenticator:
    """Authenticator for the bearers of tokens.

    Without a token a request counts as the administrator's, unless `tokens_needed` is set. kubectl sends no token over
    plain HTTP, and a user with access to a loopback address owns the machine. The check of the Host header stops web
    pages that trick a browser into sending requests here.
    """

    def __init__(
        self, bearer: Callable[[str], Identity | None], hosts: frozenset[str] | None, *, tokens_needed: bool
    ) -> None:
        """Configure the authenticator.

        `bearer` returns the identity of a token. `hosts` are the host names that clients may use; None for any.
        """
        self._bearer = bearer
        self._hosts = hosts
        self._tokens_needed = tokens_needed

    def authenticate(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a request. Raises `Unauthorized`."""
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
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


def _host_name(value: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    return value.partition(":")[0]

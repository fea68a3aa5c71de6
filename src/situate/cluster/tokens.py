"""Tokens, and whose they are: those that the server was started with, and those of service accounts that it has issued
since (TokenRequest, upstream pkg/registry/core/serviceaccount/storage/token.go).

What is issued is kept in memory, is not signed, and says nothing by itself: it counts until it expires, its account is
deleted, or the server ends. Audiences are shown, and nobody looks at them; tokens are bound to no pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.cluster.effects import Identity
from situate.cluster.field_errors import Refused, bad_request, invalid, invalid_object
from situate.cluster.names import Names
from situate.cluster.refusals import not_found
from situate.cluster.resources import Resource
from situate.cluster.rules import Obj
from situate.cluster.schemas.bodies import decode
from situate.cluster.store import Store
from situate.cluster.times import timestamp

_AUDIENCE: Final = "https://kubernetes.default.svc"
_DEFAULT_S, _LEAST_S, _MOST_S = 3600, 600, 1 << 32
_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_ACCOUNTS: Final = "system:serviceaccounts"
_TABLE: Final = "serviceaccounts"


@dataclass(frozen=True, slots=True)
class _Issued:
    identity: Identity
    namespace: str
    account: str
    expires: float


class Tokens:
    """Mutable; times are Unix seconds."""

    def __init__(self, given: Mapping[str, Identity], store: Store, names: Names) -> None:
        """`given`: tokens that never expire."""
        self._given = dict(given)
        self._store = store
        self._names = names
        self._issued: dict[str, _Issued] = {}

    def bearer(self, token: str, now: float) -> Identity | None:
        """None: nobody's, or nobody's any more."""
        found = self._issued.get(token)
        if found is None:
            return self._given.get(token)
        account = self._store.get(_TABLE, found.namespace, found.account)
        if found.expires <= now or account is None or account.uid != found.identity.uid:
            del self._issued[token]
            return None
        return found.identity

    def issue(self, resource: Resource, namespace: str, name: str, body: bytes, now: float) -> Obj | Refused:
        """The TokenRequest with its status filled in."""
        asked: Any = decode(body)
        if isinstance(asked, Refused):
            return asked
        if not isinstance(asked, dict) or asked.get("kind", _KIND) != _KIND:
            return bad_request(f"the body is not a {_KIND}")
        account = self._store.get(resource.table, namespace, name)
        if account is None:
            return not_found(resource, name)
        given = asked.get("spec")
        spec = given if isinstance(given, dict) else {}
        seconds = spec.get("expirationSeconds", _DEFAULT_S)
        if not isinstance(seconds, int) or not _LEAST_S <= seconds <= _MOST_S:
            small = not isinstance(seconds, int) or seconds < _LEAST_S
            detail = f"may not specify a duration {'less than 10 minutes' if small else 'larger than 2^32 seconds'}"
            return invalid_object(_GROUP, _KIND, "", [invalid("spec.expirationSeconds", seconds, detail)])
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", "system:authenticated")
        token = f"situate.{self._names.uid()}{self._names.uid()}".replace("-", "")
        self._issued[token] = _Issued(Identity(user, groups, account.uid), namespace, name, now + seconds)
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
            "spec": {
                "audiences": spec.get("audiences") or [_AUDIENCE],
                "expirationSeconds": seconds,
                "boundObjectRef": None,
            },
            "status": {"token": token, "expirationTimestamp": timestamp(now + seconds)},
        }

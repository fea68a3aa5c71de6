"""Map tokens to identities: tokens given at start, and tokens issued for service accounts.

Issuing follows TokenRequest (upstream pkg/registry/core/serviceaccount/storage/token.go). Issued tokens are held in
memory and are not signed. A token is valid until it expires, its account or its bound object is deleted, or the server
ends. Audiences are shown but not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from situate.cluster.errors.field_errors import Refused, bad_request, invalid, invalid_object
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import conflict, not_found
from situate.cluster.errors.times import parse_seconds, timestamp
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import decode_posted
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Catalog, Resource
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import StoredObject

_AUDIENCE: Final = "https://kubernetes.default.svc"
_DEFAULT_S, _LEAST_S, _MOST_S = 3600, 600, 1 << 32
_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_ACCOUNTS: Final = "system:serviceaccounts"
_TABLE: Final = "serviceaccounts"
_NODES: Final = "nodes"
_DEFAULT_ACCOUNT: Final = "default"
_CLAIMS: Final = "authentication.kubernetes.io"
_BOUND_KINDS: Final = ("Pod", "Node", "Secret")
_LEEWAY_S: Final = 60.0
"""Seconds that a token stays valid after the grace period of its object (upstream pkg/serviceaccount/claims.go)."""


@dataclass(frozen=True, slots=True)
class _BoundObject:
    """The object that a token is bound to."""

    table: str
    namespace: str
    name: str
    uid: str
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Claims that the object adds to the identity."""


@dataclass(frozen=True, slots=True)
class _IssuedToken:
    identity: Identity
    namespace: str
    account: str
    expires: float
    bound: _BoundObject | None


class Tokens:
    """Valid tokens, given and issued. Times are Unix seconds."""

    def __init__(self, given: Mapping[str, Identity], store: Store, names: NameGenerator, catalog: Catalog) -> None:
        """Remember the tokens in `given`, which never expire."""
        self._given = dict(given)
        self._catalog = catalog
        self._store = store
        self._names = names
        self._issued: dict[str, _IssuedToken] = {}

    def identity_of(self, token: str, now: float) -> Identity | None:
        """Return the identity of the token; None if the token is unknown or no longer valid."""
        found = self._issued.get(token)
        if found is None:
            return self._given.get(token)
        account = self._store.get(_TABLE, found.namespace, found.account)
        current = account is not None and account.uid == found.identity.uid
        if found.expires <= now or not current or not self._bound_object_exists(found.bound, now):
            del self._issued[token]
            return None
        return found.identity

    def issue(self, resource: Resource, namespace: str, name: str, body: bytes, now: float) -> Obj | Refused:
        """Return the TokenRequest with its status."""
        asked = decode_posted(body, _KIND)
        if isinstance(asked, Refused):
            return asked
        account = self._store.get(resource.table, namespace, name)
        if account is None:
            return not_found(resource, name)
        given = asked.get("spec")
        spec = given if isinstance(given, dict) else {}
        life_s = spec.get("expirationSeconds", _DEFAULT_S)
        if not isinstance(life_s, int) or not _LEAST_S <= life_s <= _MOST_S:
            small = not isinstance(life_s, int) or life_s < _LEAST_S
            detail = f"may not specify a duration {'less than 10 minutes' if small else 'larger than 2^32 seconds'}"
            return invalid_object(_GROUP, _KIND, "", [invalid("spec.expirationSeconds", life_s, detail)])
        bound = self._find_bound_object(name, namespace, spec.get("boundObjectRef"))
        if isinstance(bound, Refused):
            return bound
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", "system:authenticated")
        token = f"situate.{self._names.uid()}{self._names.uid()}".replace("-", "")
        extra = {} if bound is None else bound.extra
        self._issued[token] = _IssuedToken(
            Identity(user, groups, account.uid, extra), namespace, name, now + life_s, bound
        )
        return {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
            "spec": {
                "audiences": spec.get("audiences") or [_AUDIENCE],
                "expirationSeconds": life_s,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": timestamp(now + life_s)},
        }

    def _bound_object_exists(self, bound: _BoundObject | None, now: float) -> bool:
        """Return whether the token's object still exists. True for a token that is not bound."""
        if bound is None:
            return True
        found = self._store.get(bound.table, bound.namespace, bound.name)
        if found is None or found.uid != bound.uid:
            return False
        ends = found.object()["metadata"]["deletionTimestamp"] if found.deleting else None
        return ends is None or now <= parse_seconds(ends) + _LEEWAY_S

    def _find_bound_object(self, account: str, namespace: str, asked: object) -> _BoundObject | Refused | None:
        """Return the object in `spec.boundObjectRef`; None if the field is absent."""
        if asked is None:
            return None
        if not isinstance(asked, dict):
            return bad_request("spec.boundObjectRef is no object")
        version, kind, name, uid = (str(asked.get(key) or "") for key in ("apiVersion", "kind", "name", "uid"))
        resource = self._catalog.find_kind("v1", kind) if "/" not in version and kind in _BOUND_KINDS else None
        if resource is None:
            group, _, rest = version.rpartition("/")
            shown = f"{group}/{rest}, Kind={kind}"
            return bad_request(f"cannot bind token to object of type {shown}")
        found = self._store.get(resource.table, namespace if resource.namespaced else "", name)
        if found is None:
            return not_found(resource, name)
        if kind == "Pod" and found.object()["spec"].get("serviceAccountName", _DEFAULT_ACCOUNT) != account:
            words = f"cannot bind token for serviceaccount {quote(account)} to pod running with different"
            return bad_request(f"{words} serviceaccount name.")
        if uid and uid != found.uid:
            words = f"the UID in the bound object reference ({uid}) does not match the UID in record"
            why = f"{words}. The object might have been deleted and then recreated"
            return conflict(resource, name, why, kind)
        return _BoundObject(resource.table, found.namespace, name, found.uid, self._extra_claims(kind, found))

    def _extra_claims(self, kind: str, found: StoredObject) -> dict[str, tuple[str, ...]]:
        """Return the claims that the object adds (upstream pkg/serviceaccount/util.go); none for a Secret."""
        if kind == "Pod":
            extra = {"pod-name": found.name, "pod-uid": found.uid}
            node = found.object()["spec"].get("nodeName")
            if node:
                there = self._store.get(_NODES, "", node)
                extra |= {"node-name": node} | ({} if there is None else {"node-uid": there.uid})
        elif kind == "Node":
            extra = {"node-name": found.name, "node-uid": found.uid}
        else:
            extra = {}
        return {f"{_CLAIMS}/{key}": (value,) for key, value in extra.items()}

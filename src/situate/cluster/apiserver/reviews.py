"""Answer reviews, which are never stored.

The server has no authorization, and the answers say so: every user is allowed to do everything.
"""

from __future__ import annotations

from typing import Final

from situate.cluster.apiserver.tokens import Tokens
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.refusals import no_such_path
from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.bodies import decode_posted
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.resources import Resource

_ALLOWED: Final[Obj] = {"allowed": True, "reason": "situate's embedded API server allows everything to everybody"}
_RULES: Final[Obj] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(resource: Resource, body: bytes, identity: Identity, now: float, tokens: Tokens) -> Obj | Refused:
    """Return the review with its status."""
    asked = decode_posted(body, resource.kind)
    if isinstance(asked, Refused):
        return asked
    answer: Obj = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": asked.get("metadata") or {},
    }
    if "spec" in asked:
        answer["spec"] = asked["spec"]
    match resource.kind:
        case "SelfSubjectReview":
            answer["metadata"] = {"creationTimestamp": timestamp(now)}
            answer["status"] = {"userInfo": identity.user_info()}
        case "SelfSubjectRulesReview":
            answer["status"] = _RULES
        case "TokenReview":
            answer["status"] = _token_status(asked.get("spec"), now, tokens)
        case "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview":
            answer["status"] = _ALLOWED
        case _:
            return no_such_path(f"situate's embedded API server does not serve {resource.plural}")
    return answer


def _token_status(spec: object, now: float, tokens: Tokens) -> Obj:
    token = spec.get("token") if isinstance(spec, dict) else None
    bearer = tokens.identity_of(token, now) if isinstance(token, str) else None
    if bearer is None:
        return {"user": {}, "error": "situate's embedded API server knows no such token"}
    return {"authenticated": True, "user": bearer.user_info()}

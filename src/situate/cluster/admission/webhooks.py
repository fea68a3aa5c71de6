"""Call admission webhooks: select them, send the review, and apply the answers.

After apiserver's pkg/admission/plugin/webhook. Mutating webhooks are called one after the other, sorted by the names of
their configurations. Validating webhooks are called all at once. Of several refusals, the client gets the first in that
order; upstream returns the first to arrive.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from situate.cluster.admission.admission_review import build_review
from situate.cluster.admission.attributes import Attributes, Steps
from situate.cluster.admission.hooks import Hook, Hooks
from situate.cluster.admission.webhook_rounds import Conversation, run_in_rounds
from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import quote
from situate.cluster.errors.refusals import RequestRefused, internal_error
from situate.cluster.kinds.schemas.decoding import Strictness
from situate.cluster.kinds.semantics import Semantics
from situate.cluster.patch.patches import json_patch
from situate.cluster.storage.effects import CallWebhook, WebhookReply
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Catalog, Resource
from situate.cluster.storage.store import Store

_NO_EXPLANATION: Final = "without explanation"


class _CallFailed(Exception):
    """The webhook could not be called or gave no valid answer; failurePolicy decides."""


@dataclass(slots=True)
class MutatingPass:
    """One pass over the mutating webhooks."""

    allowed_hooks: frozenset[str] | None = None
    """Ids of the webhooks that may be called; None for all."""
    changed: bool = False
    called_hooks: list[str] = field(default_factory=list)
    """Webhooks with reinvocation policy IfNeeded that were called since the last change, in order."""
    hooks_to_reinvoke: set[str] = field(default_factory=set)

    def record_answer(self, changed: bool, hook: Hook) -> None:
        """Record one answer."""
        if changed:
            self.changed = True
            self.hooks_to_reinvoke.update(self.called_hooks)
            self.called_hooks.clear()
        if hook.reinvoked:
            self.called_hooks.append(hook.id)

    def reinvocation(self, *, everything: bool) -> MutatingPass | None:
        """Return the second pass, or None.

        `everything` is set if the in-tree plugins changed the object after this pass.
        """
        if everything:
            self.hooks_to_reinvoke.update(self.called_hooks)
        return MutatingPass(allowed_hooks=frozenset(self.hooks_to_reinvoke)) if self.hooks_to_reinvoke else None


class Webhooks:
    """All webhooks that are configured in one store."""

    def __init__(
        self,
        store: Store,
        names: NameGenerator,
        catalog: Catalog,
        semantics_of: Callable[[Resource, str, str], Semantics],
    ) -> None:
        self._names = names
        self._semantics_of = semantics_of
        versions = catalog.versions_of
        self._mutating = Hooks(store, versions, "mutatingwebhookconfigurations.admissionregistration.k8s.io")
        self._validating = Hooks(store, versions, "validatingwebhookconfigurations.admissionregistration.k8s.io")

    @property
    def configured(self) -> bool:
        """True if there are any."""
        return self._mutating.configured or self._validating.configured

    def mutating_hooks(self, attributes: Attributes) -> list[Hook]:
        """Return the webhooks with a rule for a write."""
        return self._mutating.hooks_with_rule(attributes)

    def mutate(self, attributes: Attributes, hooks: list[Hook], turn: MutatingPass) -> Steps[None]:
        """Make one pass that changes `attributes.object`.

        Raises `RequestRefused` if a webhook refuses or cannot be called.
        """
        for hook in hooks:
            if turn.allowed_hooks is not None and hook.id not in turn.allowed_hooks:
                continue
            if not self._mutating.matches(hook, attributes):
                continue
            changed = False
            try:
                changed = yield from self._mutate_with(hook, attributes)
            except _CallFailed as failed:
                refusal = self._failure(hook, failed)
                if refusal is not None:
                    raise refusal from None
            turn.record_answer(changed, hook)

    def validate(self, attributes: Attributes) -> Steps[None]:
        """Call all webhooks at once. Raises `RequestRefused` with the first refusal."""
        interested = self._validating.hooks_with_rule(attributes)
        hooks = [hook for hook in interested if self._validating.matches(hook, attributes)]
        refusals = yield from run_in_rounds([self._validate_with(hook, attributes) for hook in hooks])
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    def _validate_with(self, hook: Hook, attributes: Attributes) -> Conversation[RequestRefused | None]:
        try:
            response = yield from self._call_hook(hook, attributes, mutating=False)
        except _CallFailed as failure:
            return self._failure(hook, failure)
        except RequestRefused as declined:
            return declined
        return None if response.get("allowed") else RequestRefused(_denial(hook.name, response.get("status")))

    def _failure(self, hook: Hook, failure: _CallFailed) -> RequestRefused | None:
        """Return the refusal for a failed call; None if the failure is ignored."""
        if hook.ignores_failure:
            return None
        return RequestRefused(internal_error(f"failed calling webhook {quote(hook.name)}: {failure}"))

    def _mutate_with(self, hook: Hook, attributes: Attributes) -> Conversation[bool]:
        response = yield from self._call_hook(hook, attributes, mutating=True)
        if not response.get("allowed"):
            raise RequestRefused(_denial(hook.name, response.get("status")))
        patch = response.get("patch")
        if not patch:
            return False
        operations = _parse_patch(patch)
        if not operations:
            return False
        if attributes.object is None:
            raise RequestRefused(
                internal_error(
                    f"admission webhook {quote(hook.name)} attempted to modify the object, which is not supported for "
                    "this operation"
                )
            )
        if response.get("patchType") != "JSONPatch":
            raise _CallFailed(f"unsupported patch type {quote(str(response.get('patchType')))}")
        patched = json_patch(attributes.object, operations)
        if isinstance(patched, Refused):
            raise RequestRefused(internal_error(patched.message))
        group, version, kind = attributes.kind
        api_version = f"{group}/{version}" if group else version
        semantics = self._semantics_of(attributes.resource, api_version, kind)
        read = semantics.check(patched, Strictness.IGNORE, None)
        if isinstance(read, Refused):
            raise RequestRefused(internal_error(read.message))
        changed = read.object != attributes.object
        semantics.default(read.object)
        attributes.object = read.object
        return changed

    def _call_hook(self, hook: Hook, attributes: Attributes, *, mutating: bool) -> Conversation[Mapping[str, Any]]:
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise RequestRefused(bad_request(f"admission webhook {quote(hook.name)} does not support dry run"))
        uid = self._names.uid()
        body = msgspec.json.encode(build_review(uid, attributes))
        reply = yield from _call_with_retries(hook, body)
        if reply.status == 0:
            raise _CallFailed(f"failed to call webhook: {reply.error}")
        if not 200 <= reply.status < 300:
            raise _CallFailed(f"failed to call webhook: {_http_error_text(reply)}")
        response = _parse_response(reply.body, uid, mutating=mutating)
        for warning in response.get("warnings") or ():
            attributes.warnings.append(str(warning))
        return response


def _call_with_retries(hook: Hook, body: bytes) -> Conversation[WebhookReply]:
    """Call the webhook. Repeat with the same uid as long as it answers 503 or 429 with Retry-After."""
    left = hook.timeout_s
    wait = 0.0
    while True:
        reply = yield CallWebhook(hook.name, hook.client_config, body, left, wait)
        left -= reply.elapsed_s + wait
        if reply.status not in (429, 503) or reply.retry_after_s is None:
            return reply
        wait = reply.retry_after_s
        if left <= wait:
            return WebhookReply(error="context deadline exceeded", elapsed_s=reply.elapsed_s)


def _http_error_text(reply: WebhookReply) -> str:
    """Return client-go's text for an HTTP error."""
    try:
        status = msgspec.json.decode(reply.body)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and status.get("message"):
        return str(status["message"])
    if reply.status == 500:
        text = reply.body[:2048].decode(errors="replace").strip()
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    known = {
        400: "the server rejected our request for an unknown reason",
        401: "the server has asked for the client to provide credentials",
        403: "unknown",
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        409: "the server reported a conflict",
        429: "the server has received too many requests and has asked us to try again later",
        503: "the server is currently unable to handle the request",
        504: "the server was unable to return a response in the time allotted, but may still be processing the request",
    }
    return known.get(reply.status, "unknown")


def _parse_response(body: bytes, uid: str, *, mutating: bool) -> Mapping[str, Any]:
    try:
        review = msgspec.json.decode(body)
    except ValueError as error:
        raise _CallFailed(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise _CallFailed("received invalid webhook response: webhook response was absent")
    response: dict[str, Any] = review["response"]
    if response.get("uid") != uid:
        found = quote(str(response.get("uid", "")))
        raise _CallFailed(f"received invalid webhook response: expected response.uid={quote(uid)}, got {found}")
    if (review.get("apiVersion"), review.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise _CallFailed(
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, "
            f"Kind=AdmissionReview, got {review.get('apiVersion', '/')}, Kind={review.get('kind', '')}"
        )
    patch, kind = response.get("patch"), response.get("patchType")
    problem = ""
    if not mutating:
        problem = (
            "validating webhook may not return response.patch"
            if patch
            else "validating webhook may not return response.patchType"
            if kind
            else ""
        )
    elif patch and not kind:
        problem = "webhook returned response.patch but not response.patchType"
    elif kind and not patch:
        problem = "webhook returned response.patchType but not response.patch"
    if problem:
        raise _CallFailed(f"received invalid webhook response: {problem}")
    return response


def _parse_patch(patch: Any) -> list[Any]:
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, msgspec.DecodeError, TypeError, ValueError) as error:
        raise _CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _CallFailed("received undecodable patch in webhook response: json: cannot unmarshal into jsonpatch.Patch")
    return operations


def _denial(name: str, status: Any) -> Refused:
    """Build the refusal of a webhook (webhook/errors/statuserror.go: ToStatusErr)."""
    given: Mapping[str, Any] = status if isinstance(status, dict) else {}
    code = given.get("code")
    code = code if isinstance(code, int) and code >= 400 else 400
    denied = f"admission webhook {quote(name)} denied the request"
    message, reason = str(given.get("message") or ""), str(given.get("reason") or "")
    if message or reason:
        denied = f"{denied}: {message or reason}"
    else:
        denied = f"{denied} {_NO_EXPLANATION}"
    details = given.get("details")
    return Refused(code, reason, denied, details if isinstance(details, dict) else {})

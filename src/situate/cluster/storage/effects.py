"""Effects and identities: the only values that cross the sans-I/O edge while a request is answered.

Every request without admission webhooks is answered at once. `ApiServer.handle` yields a `CallWebhook` for each call to
make, and the caller sends it the `WebhookReply`. For a `CallWebhooks` the caller sends one reply per call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Identity:
    """The client of a request, as the transport authenticated it."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def user_info(self) -> dict[str, Any]:
        """Return the identity as admission reviews carry it (authentication/v1 UserInfo)."""
        info: dict[str, Any] = {"username": self.user}
        if self.uid:
            info["uid"] = self.uid
        info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


ADMIN = Identity("kubernetes-admin", ("system:masters", "system:authenticated"))


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """A call that sends one AdmissionReview.

    The caller tries once. After a reply with 503 and Retry-After the server yields the call again, with `not_before_s`
    set.
    """

    webhook: str
    """Name of the webhook, for messages."""
    client_config: Mapping[str, Any]
    """`url` or `service` {namespace, name, path, port}, and `caBundle`, as in the configuration."""
    body: bytes
    """The AdmissionReview."""
    timeout_s: float
    """The rest of the webhook's timeoutSeconds."""
    not_before_s: float = 0.0
    """Seconds to wait before the call, from Retry-After."""


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """Result of a call: an answer, or the reason for its absence."""

    status: int = 0
    """HTTP status; 0 without an answer."""
    body: bytes = b""
    retry_after_s: float | None = None
    """From the header Retry-After; None without one."""
    error: str = ""
    """Reason for a missing answer, in Go's words where they are known, such as `context deadline exceeded`."""
    elapsed_s: float = 0.0
    """Duration of the call."""


@dataclass(frozen=True, slots=True)
class CallWebhooks:
    """Several calls at once. The replies come together, in the order of the calls."""

    calls: tuple[CallWebhook, ...]


Effect: TypeAlias = CallWebhook | CallWebhooks
Reply: TypeAlias = WebhookReply | tuple[WebhookReply, ...]


def unreachable_replies(effect: Effect) -> Reply:
    """Return the replies of calls made without a network."""
    reply = WebhookReply(error="there is no network")
    return reply if isinstance(effect, CallWebhook) else (reply,) * len(effect.calls)

"""What answering a request may ask of the world, and who asks: the only values that cross the sans-I/O edge.

Everything but admission webhooks is answered at once. `ApiServer.handle` yields a `CallWebhook` for each call that is
to be made and is sent the `WebhookReply`; for a `CallTogether` it is sent as many replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking, as the transport found out."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def user_info(self) -> dict[str, Any]:
        """As admission reviews carry it (authentication/v1 UserInfo)."""
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
    """Send one AdmissionReview.

    The caller tries once; a reply with 503 and Retry-After makes the server ask again, with `not_before` set.
    """

    webhook: str
    """Name of the webhook, for messages."""
    client_config: Mapping[str, Any]
    """`url` or `service` {namespace, name, path, port}, and `caBundle`, as in the configuration."""
    body: bytes
    """The AdmissionReview."""
    timeout_s: float
    """What is left of the webhook's timeoutSeconds."""
    not_before_s: float = 0.0
    """Wait so long first: what Retry-After asked for."""


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """What came of a call: an answer, or the reason why there was none."""

    status: int = 0
    """HTTP status; 0 if there was no answer."""
    body: bytes = b""
    retry_after_s: float | None = None
    """From the header Retry-After; None without one."""
    error: str = ""
    """Why there was no answer, in Go's words where they are known, such as `context deadline exceeded`."""
    elapsed_s: float = 0.0
    """How long the call took."""


@dataclass(frozen=True, slots=True)
class CallTogether:
    """Send several AdmissionReviews at once; the replies come in the order of the calls, when all are there."""

    calls: tuple[CallWebhook, ...]


Effect: TypeAlias = CallWebhook | CallTogether
Reply: TypeAlias = WebhookReply | tuple[WebhookReply, ...]


def unreachable(effect: Effect) -> Reply:
    """What comes of calls where there is no network."""
    reply = WebhookReply(error="there is no network")
    return reply if isinstance(effect, CallWebhook) else (reply,) * len(effect.calls)

"""Whose token is this? (authentication/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.objects.model import Model


class UserInfo(Model, frozen=True):
    """Somebody whom the API server knows."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """What the authenticator adds, such as the pod of a service account's token."""


class TokenReviewStatus(Model, frozen=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    """Those of the token that were asked for; empty if the server knows no audiences."""
    error: str = ""
    """Why the token could not be judged, or is refused."""


class TokenReview(Model, frozen=True):
    status: TokenReviewStatus = TokenReviewStatus()

"""TokenReviews: the user of a token (authentication/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.objects.model import Model


class UserInfo(Model, frozen=True):
    """A user known to the API server."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Values that the authenticator adds, such as the Pod of a service account's token."""


class TokenReviewStatus(Model, frozen=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    """The requested audiences that the token has; empty if the server knows no audiences."""
    error: str = ""
    """Why the token was refused or could not be checked."""


class TokenReview(Model, frozen=True):
    status: TokenReviewStatus = TokenReviewStatus()

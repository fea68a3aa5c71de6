"""Asks the API server about a caller: the identity behind a token, and the caller's permissions.

Used by situate's own servers. The account of the client needs `create` on `tokenreviews` and `subjectaccessreviews`.
"""

from __future__ import annotations

from collections.abc import Sequence

from situate.kube.client import Client
from situate.objects.resources import SUBJECTACCESSREVIEWS, TOKENREVIEWS
from situate.objects.reviews.authentication import TokenReviewStatus, UserInfo
from situate.objects.reviews.authorization import NonResourceAttributes, ResourceAttributes, SubjectAccessReviewStatus


async def review_token(client: Client, token: str, audiences: Sequence[str] = ()) -> TokenReviewStatus:
    """Identify the user of a token, valid for one of `audiences`; without any, for the API server itself.

    Raises the client's errors, which never contain the token.
    """
    spec = {"token": token, "audiences": list(audiences)} if audiences else {"token": token}
    review = await client.create(TOKENREVIEWS, {"spec": spec})
    return review.status


async def review_access(
    client: Client, user: UserInfo, action: ResourceAttributes | NonResourceAttributes
) -> SubjectAccessReviewStatus:
    """Ask whether a user may perform an action. Raises the client's errors."""
    what = "resourceAttributes" if isinstance(action, ResourceAttributes) else "nonResourceAttributes"
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": dict(user.extra),
        what: action,
    }
    review = await client.create(SUBJECTACCESSREVIEWS, {"spec": spec})
    return review.status

"""Asks the API server about others: whose token it is, and what they may do. For servers of ours.

The account that asks needs `create` on `tokenreviews` and `subjectaccessreviews`.
"""

from __future__ import annotations

from collections.abc import Sequence

from situate.kube.client import Client
from situate.objects.resources import SUBJECTACCESSREVIEWS, TOKENREVIEWS
from situate.objects.reviews.authentication import TokenReviewStatus, UserInfo
from situate.objects.reviews.authorization import NonResourceAttributes, ResourceAttributes, SubjectAccessReviewStatus


async def review_token(client: Client, token: str, audiences: Sequence[str] = ()) -> TokenReviewStatus:
    """Whose it is. `audiences`: for which of them it has to be; none: for the API server itself.

    Raises what the client raises, never with the token in it.
    """
    spec = {"token": token, "audiences": list(audiences)} if audiences else {"token": token}
    review = await client.create(TOKENREVIEWS, {"spec": spec})
    return review.status


async def review_access(
    client: Client, user: UserInfo, action: ResourceAttributes | NonResourceAttributes
) -> SubjectAccessReviewStatus:
    """Whether that user may do that. Raises what the client raises."""
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

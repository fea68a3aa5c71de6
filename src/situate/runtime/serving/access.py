"""Authenticates and authorizes callers through the API server; caches approvals for seconds and refusals never.

A permission that is granted applies at once; a permission that is removed ends at most `TTL_S` later.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from situate.kube.client import Client
from situate.kube.queries.reviews import review_access, review_token
from situate.objects.reviews.authentication import UserInfo
from situate.objects.reviews.authorization import NonResourceAttributes, ResourceAttributes
from situate.runtime.serving.status_answers import Declined, service_unavailable, unauthorized

TTL_S: Final = 10.0
KNOWN_TOKEN_S: Final = 600.0
"""How long after a successful review a token counts as known."""
MOST_UNKNOWN_REVIEWS: Final = 500
"""Reviews of unknown tokens at a time; more would wait longer than their callers do."""
_MOST_CACHED: Final = 4096
"""Cached results; beyond this number the oldest is removed."""
_LONGEST_TOKEN: Final = 64 * 1024
T = TypeVar("T")


class Access:
    """Reviews of tokens and permissions by a client that may create TokenReviews and SubjectAccessReviews."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float],
        audiences: Sequence[str] = (),
        *,
        for_known: Client | None = None,
    ) -> None:
        """Take the clients and the audiences.

        `clock` is monotonic, in seconds. Tokens must be valid for one of `audiences`; without any, for the API server.
        `for_known` is another client, with its own rate, for tokens that were valid before. Invalid tokens, each of
        which needs a review, then delay only unknown callers.
        """
        self._client = client
        self._for_known = client if for_known is None else for_known
        self._audiences = tuple(audiences)
        self._bearers: _ExpiringCache[UserInfo] = _ExpiringCache(clock)
        self._reviews: dict[str, asyncio.Future[UserInfo]] = {}
        """Reviews under way: concurrent requests with one token share the first one's review."""
        self._unknown_tokens: set[str] = set()
        """Unknown tokens under review."""
        self._good: _ExpiringCache[bool] = _ExpiringCache(clock, KNOWN_TOKEN_S)
        self._allowed: _ExpiringCache[bool] = _ExpiringCache(clock)

    async def authenticate(self, authorization: str) -> UserInfo:
        """Authenticate the token of a header.

        Raises `Declined` (401, or 503 with too many unknown tokens), and the client's errors.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST_TOKEN:
            raise unauthorized()
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()  # no token stays in memory for long
        known = self._bearers.get(key)
        if known is not None:
            return known
        under_way = self._reviews.get(key)
        if under_way is None:
            stranger = not self._good.get(key)
            if stranger and len(self._unknown_tokens) >= MOST_UNKNOWN_REVIEWS:
                raise service_unavailable("too many unknown tokens are under review; try again")
            if stranger:
                self._unknown_tokens.add(key)
            client = self._client if stranger else self._for_known
            under_way = self._reviews[key] = asyncio.ensure_future(self._review(client, token, key))
            under_way.add_done_callback(lambda ended: self._finish_review(key, ended))
        return await asyncio.shield(under_way)  # other callers may wait for the same review

    def _finish_review(self, key: str, review: asyncio.Future[UserInfo]) -> None:
        del self._reviews[key]
        self._unknown_tokens.discard(key)
        if not review.cancelled():
            review.exception()  # each waiting caller receives it; there may be none left

    async def _review(self, client: Client, token: str, key: str) -> UserInfo:
        status = await review_token(client, token, self._audiences)
        if not status.authenticated or not status.user.username:
            raise unauthorized()
        if self._audiences and not set(self._audiences) & set(status.audiences):
            raise unauthorized("the token has none of this server's audiences")
        self._bearers.put(key, status.user)
        self._good.put(key, True)
        return status.user

    async def check(self, user: UserInfo, action: ResourceAttributes | NonResourceAttributes) -> None:
        """Raise `Declined` (403) if the user may not perform the action. Raises the client's errors, too."""
        key = repr((user.username, user.uid, user.groups, sorted(user.extra.items()), action))
        if self._allowed.get(key):
            return
        status = await review_access(self._for_known, user, action)
        if not status.allowed:
            raise _forbidden(user, action, status.reason)
        self._allowed.put(key, True)


def _forbidden(user: UserInfo, action: ResourceAttributes | NonResourceAttributes, reason: str) -> Declined:
    """Format a refusal as kube-apiserver does (apiserver endpoints/handlers/responsewriters/errors.go)."""
    why = f": {reason}" if reason else ""
    if isinstance(action, NonResourceAttributes):
        said = f'forbidden: User "{user.username}" cannot {action.verb} path "{action.path}"{why}'
        return Declined(403, "Forbidden", said)
    what = f"{action.resource}.{action.group}" if action.group else action.resource
    named = f' "{action.name}"' if action.name else ""
    scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    said = (
        f'{what}{named} is forbidden: User "{user.username}" cannot {action.verb} resource "{action.resource}" in API '
        f'group "{action.group}" {scope}{why}'
    )
    details = {"group": action.group, "kind": action.resource} | ({"name": action.name} if action.name else {})
    return Declined(403, "Forbidden", said, details)


class _ExpiringCache(Generic[T]):
    """Values by key, each for `ttl_s` seconds."""

    def __init__(self, clock: Callable[[], float], ttl_s: float = TTL_S) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._values: dict[str, tuple[T, float]] = {}
        """Each value with its expiry, in the order of expiry."""

    def get(self, key: str) -> T | None:
        found = self._values.get(key)
        return found[0] if found is not None and self._clock() < found[1] else None

    def put(self, key: str, value: T) -> None:
        self._values.pop(key, None)
        if len(self._values) >= _MOST_CACHED:
            del self._values[next(iter(self._values))]
        self._values[key] = value, self._clock() + self._ttl_s

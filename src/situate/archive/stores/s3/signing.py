"""Signed requests to an S3-compatible server that the client library does not support.

AWS Signature Version 4 (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html), for requests
without a body.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlsplit

_EMPTY: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """Access keys of an account."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    token: str = field(default="", repr=False)
    """Token of a session; empty for permanent keys."""


def sign_request(
    method: str, url: str, query: Sequence[tuple[str, str]], keys: AccessKeys, region: str, now: datetime
) -> tuple[str, dict[str, str]]:
    """Return the URL with its query, and the headers. `url` has no query, and its path is percent-encoded as sent."""
    parts = urlsplit(url)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"host": parts.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    encoded = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query))
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join((method, parts.path or "/", encoded, lines, names, _EMPTY))
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"{keys.access_key_id}/{scope}"
    told = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return f"{url}?{encoded}" if encoded else url, headers | {"authorization": told}


def keys_of(environment: Mapping[str, str]) -> AccessKeys | None:
    """Return the keys in the environment itself; None: there are none."""
    found = environment.get("AWS_ACCESS_KEY_ID", ""), environment.get("AWS_SECRET_ACCESS_KEY", "")
    return AccessKeys(*found, environment.get("AWS_SESSION_TOKEN", "")) if all(found) else None

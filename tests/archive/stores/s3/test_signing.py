"""Signatures are those of the examples in AWS's documentation of Signature Version 4."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from situate.archive.stores.s3.signing import AccessKeys, keys_of, sign_request

EXAMPLE = AccessKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
MOMENT = datetime(2013, 5, 24, tzinfo=UTC)
URL = "https://examplebucket.s3.amazonaws.com/"


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        pytest.param(
            [("lifecycle", "")],
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            id="GET Bucket Lifecycle",
        ),
        pytest.param(
            [("prefix", "J"), ("max-keys", "2")],
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            id="Get Bucket (List Objects)",
        ),
    ],
)
def test_signatures_are_those_of_the_documentation(query: list[tuple[str, str]], signature: str) -> None:
    sent, headers = sign_request("GET", URL, query, EXAMPLE, "us-east-1", MOMENT)
    assert headers["authorization"].endswith(f"Signature={signature}")
    assert "20130524/us-east-1/s3/aws4_request" in headers["authorization"]
    assert sent.startswith(f"{URL}?")


def test_keys_are_not_shown_and_half_of_them_are_none() -> None:
    found = keys_of({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_SESSION_TOKEN": "hunter3"})
    assert found == AccessKeys("a", "hunter2", "hunter3")
    assert "hunter" not in repr(found)
    assert keys_of({"AWS_ACCESS_KEY_ID": "a"}) is None
    assert "x-amz-security-token" in sign_request("GET", URL, [], AccessKeys("a", "b", "c"), "x", MOMENT)[1]

from __future__ import annotations

import pytest

from situate.kube.watch.resource_versions import VersionHistory, is_older
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Pod


@pytest.mark.parametrize(
    ("one", "other", "earlier"),
    [
        ("9", "10", True),
        ("10", "9", False),
        ("10", "10", False),
        ("10", "11", True),
        ("", "5", False),
        ("a", "b", False),
        ("5", "b", False),
        ("12345678901234567890", "12345678901234567891", True),
    ],
)
def test_decimals_are_compared_and_nothing_else(one: str, other: str, earlier: bool) -> None:
    assert is_older(one, other) is earlier


def pod(version: str, uid: str = "u") -> Pod:
    return Pod(metadata=ObjectMeta("web", "default", uid=uid, resource_version=version))


def test_what_is_news() -> None:
    versions = VersionHistory()
    assert versions.is_news(None, pod("5"))
    assert versions.is_news(pod("5"), pod("6"))
    assert not versions.is_news(pod("6"), pod("5"))
    assert not versions.is_news(pod("6"), pod("6"))
    assert versions.is_news(pod("6"), pod("6", uid="made anew"))
    assert versions.is_news(pod("a"), pod("b")), "other words than numbers are never older"
    versions.record_listed("10")
    assert not versions.is_news(None, pod("9")), "it had gone when everything was listed"
    assert versions.is_news(None, pod("11"))
    versions.record_deleted("default", "web", "12")
    assert not versions.is_news(None, pod("11"))
    assert versions.is_news(None, pod("13"))
    versions.record_listed("20")
    assert not versions.is_news(None, pod("13"))

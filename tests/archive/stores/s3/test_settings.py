"""What a URL and the environment say, and that neither lets a secret out."""

from __future__ import annotations

from pathlib import Path

import pytest

from situate.archive.stores.s3.settings import S3Settings, settings_of, store_of


@pytest.mark.parametrize(
    ("url", "environment", "want"),
    [
        pytest.param("s3://b", {}, S3Settings("b"), id="a bucket"),
        pytest.param("s3://b/p/q/", {}, S3Settings("b", "p/q"), id="a prefix"),
        pytest.param(
            "s3://b?endpoint=http://127.0.0.1:9000&region=eu-west-1&credentials-file=/etc/s3",
            {"AWS_ENDPOINT_URL": "https://other"},
            S3Settings("b", "", "http://127.0.0.1:9000", "eu-west-1", "/etc/s3"),
            id="the URL first",
        ),
        pytest.param(
            "s3://b",
            {"AWS_ENDPOINT_URL": "https://one", "AWS_ENDPOINT_URL_S3": "https://two"},
            S3Settings("b", "", "https://two"),
            id="then the environment",
        ),
        pytest.param(
            "s3://b", {"AWS_SHARED_CREDENTIALS_FILE": "/f"}, S3Settings("b", credentials_file="/f"), id="file"
        ),
        pytest.param(
            "s3://b", {"AWS_SHARED_CREDENTIALS_FILE": "/f", "AWS_ACCESS_KEY_ID": "k"}, S3Settings("b"), id="a key first"
        ),
    ],
)
def test_settings(url: str, environment: dict[str, str], want: S3Settings) -> None:
    assert settings_of(url, environment) == want


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("file:///x", "found no bucket", id="another archive"),
        pytest.param("s3://", "found no bucket", id="no bucket"),
        pytest.param("s3://[hunter2", "no valid URL", id="no valid URL"),
        pytest.param("s3://key:hunter2@b", "found credentials before the bucket", id="credentials"),
        pytest.param("s3://b?secret=hunter2", "found parameter 'secret', allowed: endpoint, region", id="unknown"),
        pytest.param("s3://b/a/../c", "found prefix 'a/../c'", id="up"),
        pytest.param("s3://b?endpoint=minio:9000", "endpoint: found no URL", id="endpoint"),
    ],
)
def test_mistakes_are_told_without_secrets(url: str, want: str) -> None:
    with pytest.raises(ValueError, match=want) as caught:
        settings_of(url, {})
    assert "hunter2" not in str(caught.value)


def test_a_client_does_not_show_what_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = k\naws_secret_access_key = hunter2\n")
    assert "hunter2" not in repr(store_of(S3Settings("b", credentials_file=str(file)), timeout_s=1.0))

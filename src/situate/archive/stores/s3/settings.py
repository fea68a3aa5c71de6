"""Bucket, endpoint and credentials of an S3 archive, from its URL and the environment.

Credentials are never in a URL, a flag or a message. They come from a file in the format of the AWS tools. The file is
read again every few minutes, so that it can be rotated. Without a file, the environment supplies them in every way that
the client library supports: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, web identities, container and instance roles.
"""

from __future__ import annotations

import configparser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from obstore.store import S3Store

from situate.archive.stores.s3.signing import AccessKeys, keys_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

_REREAD: Final = timedelta(minutes=10)
"""How long credentials of a file are valid. The client asks for new ones five minutes before the end."""
_PARAMETERS: Final = {"endpoint": "endpoint", "region": "region", "credentials-file": "credentials_file"}


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The location of the archive. Empty text leaves a setting to the client, which reads AWS's own variables."""

    bucket: str
    prefix: str = ""
    """Without slashes at its ends; empty for the whole bucket."""
    endpoint: str = ""
    """Such as https://minio.example:9000; empty for AWS."""
    region: str = ""
    credentials_file: str = ""

    @property
    def name(self) -> str:
        """The name of the archive in messages."""
        return "/".join(filter(None, ("s3:/", self.bucket, self.prefix)))


def settings_of(url: str, environment: Mapping[str, str]) -> S3Settings:
    """Parse `s3://BUCKET/PREFIX?endpoint=URL&region=NAME&credentials-file=PATH`; only the bucket is required.

    AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and AWS_SHARED_CREDENTIALS_FILE supply missing parts of the URL. The file is
    used only if the environment contains no key itself. `ValueError` quotes no possible secret.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # the error quotes the URL
        raise ValueError("archive URL: found no valid URL, allowed: s3://BUCKET/PREFIX") from None
    allowed = "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&credentials-file=PATH"
    if parts.scheme != "s3" or not parts.netloc:
        raise ValueError(f"archive URL: found no bucket, allowed: {allowed}")
    if "@" in parts.netloc:
        raise ValueError(
            "archive URL: found credentials before the bucket, allowed: none; put them into the environment, or into "
            "the file of credentials-file"
        )
    given: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise ValueError(f"archive URL: found parameter {name!r:.40}, allowed: {', '.join(_PARAMETERS)}")
        given[_PARAMETERS[name]] = value
    prefix = unquote(parts.path).strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise ValueError(f"archive URL: found prefix {prefix!r:.80}, allowed: non-empty parts other than '.' and '..'")
    endpoint = (
        given.get("endpoint") or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL", "")
    )
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise ValueError("archive URL: endpoint: found no URL of a server, allowed: https://HOST:PORT")
    file = given.get("credentials_file", "")
    if not file and not environment.get("AWS_ACCESS_KEY_ID"):
        file = environment.get("AWS_SHARED_CREDENTIALS_FILE", "")
    return S3Settings(parts.netloc, prefix, endpoint, given.get("region", ""), file)


def store_of(settings: S3Settings, timeout_s: float) -> S3Store:
    """Return the client for the archive's part of the bucket. Each call ends within about three times the timeout."""
    timeout = timedelta(seconds=timeout_s)
    config: S3Config = {"checksum_algorithm": "SHA256", "conditional_put": "etag"}
    config["disable_bulk_delete"] = True  # one at a time: not every server accepts lists
    client: ClientConfig = {"timeout": timeout, "connect_timeout": timeout, "user_agent": "situate"}
    if settings.endpoint:
        config["endpoint"] = settings.endpoint
        client["allow_http"] = settings.endpoint.startswith("http://")
    if settings.region:
        config["region"] = settings.region
    retries: RetryConfig = {"max_retries": 2, "retry_timeout": timeout}
    provider = _CredentialsFile(Path(settings.credentials_file)) if settings.credentials_file else None
    return S3Store(
        settings.bucket,
        prefix=settings.prefix or None,
        config=config,
        client_options=client,
        retry_config=retries,
        credential_provider=provider,
    )


def keys_for(settings: S3Settings, environment: Mapping[str, str]) -> Callable[[], AccessKeys | None]:
    """Return a source of keys for requests that the client library lacks; None where only the library has keys."""

    def found() -> AccessKeys | None:
        if not settings.credentials_file:
            return keys_of(environment)
        try:
            credential = _CredentialsFile(Path(settings.credentials_file))()
        except ValueError:
            return None  # the library's own requests report it
        return AccessKeys(credential["access_key_id"], credential["secret_access_key"], credential.get("token") or "")

    return found


def region_of(settings: S3Settings, environment: Mapping[str, str]) -> str:
    """Return the region as the client library finds it."""
    return settings.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


class _CredentialsFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> S3Credential:
        """Read the credentials. The archive passes a `ValueError` to its caller as a refusal that quotes it."""
        parser = configparser.ConfigParser(default_section="", interpolation=None)
        try:
            parser.read_string(self._path.read_text())
            section = parser["default"]
            credential: S3Credential = {
                "access_key_id": section["aws_access_key_id"],
                "secret_access_key": section["aws_secret_access_key"],
                "expires_at": datetime.now(UTC) + _REREAD,
            }
        except (OSError, UnicodeDecodeError, configparser.Error, KeyError) as error:
            raise ValueError(
                f"{self._path} holds no credentials ({type(error).__name__}), allowed: a section [default] with "
                "aws_access_key_id and aws_secret_access_key"
            ) from None
        if token := section.get("aws_session_token"):
            credential["token"] = token
        return credential

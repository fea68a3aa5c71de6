"""Send the calls of admission webhooks over HTTPS, and report failures in the words of Go's client.

The HTTP client is imported at the first call. This saves a server without webhooks 0.2 s of CPU time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from situate.cluster.storage.effects import CallWebhook, Effect, Reply, WebhookReply

if TYPE_CHECKING:
    from aiohttp import ClientSession

ServiceAddress = Callable[[str, str, int], str]
"""Returns the reachable address of a Service's port, as `https://host:port`. Raises `LookupError` if none exists."""


class WebhookCaller:
    """One client session for all webhooks. Connections stay open between calls, as upstream."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._session: ClientSession | None = None
        self._tls: dict[str, ssl.SSLContext] = {}

    async def execute(self, effect: Effect) -> Reply:
        """Make one call, or several at once, and return the replies."""
        if isinstance(effect, CallWebhook):
            return await self._call(effect)
        return tuple(await asyncio.gather(*map(self._call, effect.calls)))

    async def _call(self, effect: CallWebhook) -> WebhookReply:
        """Make one attempt. Every failure is reported in the reply."""
        import aiohttp

        session = self._session = self._session or aiohttp.ClientSession(trust_env=False)
        if effect.not_before_s:
            await asyncio.sleep(effect.not_before_s)
        clock = asyncio.get_running_loop().time
        begun = clock()
        url = "the webhook"
        try:
            url, tls, server_name = self._destination(effect.client_config)
            async with (
                asyncio.timeout(effect.timeout_s),
                session.post(
                    url,
                    params={"timeout": f"{max(1, round(effect.timeout_s + 0.499))}s"},
                    data=effect.body,
                    headers={"content-type": "application/json", "accept": "application/json, */*"},
                    ssl=tls,
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as response,
            ):
                body = await response.read()
                retry = response.headers.get("Retry-After", "")
                return WebhookReply(
                    response.status,
                    body,
                    float(retry) if retry.isdecimal() else None,
                    elapsed_s=clock() - begun,
                )
        except TimeoutError:
            shown = f"{url}?timeout={round(effect.timeout_s)}s"
            error = f'Post "{shown}": context deadline exceeded'
        except (aiohttp.ClientError, OSError, LookupError, ssl.SSLError, ValueError) as failure:
            shown = f"{url}?timeout={round(effect.timeout_s)}s"
            error = f'Post "{shown}": {_go_error_text(failure)}'
        return WebhookReply(error=error, elapsed_s=clock() - begun)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _destination(self, config: Mapping[str, Any]) -> tuple[str, ssl.SSLContext | bool, str | None]:
        """Return the URL, the trusted authorities, and the name required in the certificate (None: the URL's host)."""
        bundle = config.get("caBundle") or ""
        if config.get("url"):
            return str(config["url"]), self._tls_context(bundle), None
        service = config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        base = self._address(namespace, name, service.get("port") or 443)
        return base + (service.get("path") or "/"), self._tls_context(bundle), f"{name}.{namespace}.svc"

    def _tls_context(self, bundle: str) -> ssl.SSLContext | bool:
        """Return a context that trusts only the bundle; without a bundle, True for the system's authorities."""
        if not bundle:
            return True
        if bundle not in self._tls:
            try:
                authorities = base64.b64decode(bundle, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise ValueError("unable to load root certificates: the caBundle is not base64 of PEM") from error
            self._tls[bundle] = ssl.create_default_context(cadata=authorities)
        return self._tls[bundle]


def _go_error_text(failure: Exception) -> str:
    import aiohttp

    if isinstance(failure, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {failure.certificate_error}"
    if isinstance(failure, aiohttp.ClientConnectorError) and isinstance(failure.os_error, ConnectionRefusedError):
        return f"dial tcp {failure.host}:{failure.port}: connect: connection refused"
    if isinstance(failure, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(failure) or type(failure).__name__

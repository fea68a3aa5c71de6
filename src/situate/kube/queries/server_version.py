"""The version that an API server reports."""

from __future__ import annotations

import msgspec

from situate.kube.client import Client
from situate.kube.errors import NotKubernetes
from situate.objects.messages import Request


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str
    major: str = ""
    minor: str = ""

    def is_at_least(self, major: int, minor: int) -> bool:
        """Whether the server is this release of Kubernetes or later; providers may add a sign, as in `33+`."""
        numbers = tuple("".join(filter(str.isdigit, each)) for each in (self.major, self.minor))
        return not all(numbers) or tuple(map(int, numbers)) >= (major, minor)


async def server_version(client: Client) -> ServerVersion:
    """Read the version. Raises the client's errors, and `NotKubernetes` if the answer is not from an API server."""
    request = Request("GET", "/version", (), {"accept": "application/json"})
    answer = await client.raw(request)
    try:
        return msgspec.json.decode(answer.body, type=ServerVersion)
    except (ValueError, RecursionError):
        raise NotKubernetes(answer, request, client.server) from None

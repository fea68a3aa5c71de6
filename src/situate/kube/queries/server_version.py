"""What an API server says of itself."""

from __future__ import annotations

import msgspec

from situate.kube.client import Client
from situate.kube.errors import NotKubernetes
from situate.objects.messages import Request


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str
    major: str = ""
    minor: str = ""

    def since(self, major: int, minor: int) -> bool:
        """Whether it is this release of Kubernetes or a later one; providers add a sign to the number, as in `33+`."""
        numbers = tuple("".join(filter(str.isdigit, each)) for each in (self.major, self.minor))
        return not all(numbers) or tuple(map(int, numbers)) >= (major, minor)


async def server_version(client: Client) -> ServerVersion:
    """Raises what the client raises, and `NotKubernetes` where something answers that is no API server."""
    request = Request("GET", "/version", (), {"accept": "application/json"})
    answer = await client.raw(request)
    try:
        return msgspec.json.decode(answer.body, type=ServerVersion)
    except (ValueError, RecursionError):
        raise NotKubernetes(answer, request, client.server) from None

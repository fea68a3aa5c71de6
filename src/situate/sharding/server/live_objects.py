"""Read the live objects of one resource from the cluster, for `situate.archive.operations.object_reader`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.archive.operations.object_reader import LivePage, Selection
from situate.kube.client import Client
from situate.kube.errors import NotFound, UnreadableAnswer
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType


class ClientObjects:
    """The live objects, as the API server returns them; none if the resource is no longer served."""

    def __init__(self, client: Client, resource: ResourceType[Unstructured]) -> None:
        self._client = client
        self._resource = resource

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            return (await self._client.get(self._resource, name, namespace or None)).content
        except NotFound as problem:
            _check_api_server_answer(problem)
            return None

    async def list(self, selection: Selection, limit: int | None, continue_: str) -> LivePage:
        try:
            page = await self._client.list(
                self._resource,
                selection.namespace,
                label_selector=str(selection.labels),
                field_selector=str(selection.fields),
                limit=limit,
                continue_=continue_,
            )
        except NotFound as problem:
            _check_api_server_answer(problem)
            return LivePage((), "", "")
        return LivePage(tuple(each.content for each in page.items), page.continue_, page.resource_version)


def _check_api_server_answer(problem: NotFound) -> None:
    """Raise `UnreadableAnswer` if the 404 comes from a proxy: that says nothing about the objects."""
    if problem.reason != "NotFound" and problem.message.strip() != _NO_SUCH_PATH:
        raise UnreadableAnswer(f"the response is not from an API server: {problem.message:.100}") from problem


_NO_SUCH_PATH: Final = "404 page not found"
"""The API server's message if a whole API group is no longer served."""

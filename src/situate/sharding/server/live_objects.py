"""The objects of one resource that are in the cluster, for `situate.archive.operations.object_reader`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.archive.operations.object_reader import LivePage, Selection
from situate.kube.client import Client
from situate.kube.errors import NotFound, UnreadableAnswer
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType


class ClientObjects:
    """As the API server gives them. Where the resource itself is not served any more, nothing is live."""

    def __init__(self, client: Client, resource: ResourceType[Unstructured]) -> None:
        self._client = client
        self._resource = resource

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            return (await self._client.get(self._resource, name, namespace or None)).content
        except NotFound as problem:
            _check_is_an_answer(problem)
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
            _check_is_an_answer(problem)
            return LivePage((), "", "")
        return LivePage(tuple(each.content for each in page.items), page.continue_, page.resource_version)


def _check_is_an_answer(problem: NotFound) -> None:
    """Raises `UnreadableAnswer` for a proxy's own page, which says nothing of objects."""
    if problem.reason != "NotFound" and problem.message.strip() != _NO_SUCH_PATH:
        raise UnreadableAnswer(f"no API server answers here, but something else: {problem.message:.100}") from problem


_NO_SUCH_PATH: Final = "404 page not found"
"""What an API server says where a whole group is not served any more."""

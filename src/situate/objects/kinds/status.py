"""`kind: Status`: the error response of an API server, or the result of a deletion (apimachinery meta/v1 types.go)."""

from __future__ import annotations

from situate.objects.kinds.meta import ListMeta
from situate.objects.model import Model


class StatusCause(Model, frozen=True):
    """One reason among several, such as one field of an invalid object."""

    reason: str = ""
    message: str = ""
    field: str = ""
    """Path in the object, such as `spec.containers[0].image`; empty if no field is concerned."""


class StatusDetails(Model, frozen=True):
    """The object of a Status, and the causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    """As the server wrote it: usually the plural resource (`pods`), for invalid objects the kind (`Pod`)."""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model, frozen=True):
    """The body of an error response."""

    kind: str = ""
    status: str = ""
    """`Success` or `Failure`."""
    message: str = ""
    reason: str = ""
    """A word for programs, such as `NotFound`."""
    details: StatusDetails = StatusDetails()
    code: int = 0
    """The HTTP status."""
    metadata: ListMeta = ListMeta()
    """`metadata.continue` of an expired list allows an inconsistent continuation."""

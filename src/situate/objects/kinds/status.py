"""`kind: Status`: how an API server says no, or that a deletion is done (apimachinery meta/v1 types.go)."""

from __future__ import annotations

from situate.objects.kinds.meta import ListMeta
from situate.objects.model import Model


class StatusCause(Model, frozen=True):
    """One reason among several, such as one field of an invalid object."""

    reason: str = ""
    message: str = ""
    field: str = ""
    """Path in the object, such as `spec.containers[0].image`; empty if it is about no field."""


class StatusDetails(Model, frozen=True):
    """Which object a Status is about, and why."""

    name: str = ""
    group: str = ""
    kind: str = ""
    """Mostly the plural resource (`pods`), for invalid objects the kind (`Pod`): as the server wrote it."""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Model, frozen=True):
    """The body of a refusal."""

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
    """`metadata.continue` of an expired list goes on, inconsistently."""

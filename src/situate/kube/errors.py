"""How calls fail, and whether a retry helps.

A refusal is an `ApiError`, with one subclass for each way in which a server can refuse. A missing answer is
`Unreachable`; an answer that cannot be decoded is `UnreadableAnswer`. Every failure of the network or the server is a
`KubeError`. Each message is one sentence that names the object, quotes the server and gives the next step. Retries are
left to `situate.kube.retry.retries` and to the work queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from situate.objects.decoding.codec import Malformed, decode_status
from situate.objects.kinds.status import Status, StatusDetails
from situate.objects.messages import Request, Response

_QUOTED: Final = 200
"""Bytes of an answer that an error shows."""
_NO_SUCH_PAGE: Final = frozenset({404, 405, 501})
"""Status codes of a web server that knows neither the path nor the method. Proxies before an API server use others."""
_NO_SUCH_PATH: Final = b"404 page not found"
SHORTEST_S: Final = 1.0
LONGEST_S: Final = 600.0
"""Upper bound of the delay that a server requests; `SHORTEST_S` is the lower bound.

A shorter delay is raised, so that calls never follow without a pause. A longer one is cut, because a wrong value from a
proxy could stop a watch for years.
"""


class KubeError(Exception):
    """A failure of the network or of the server."""

    retriable: bool = False
    """Whether the same call may succeed later."""
    after_s: float | None = None
    """The delay that the server requested, from `SHORTEST_S` to `LONGEST_S`; None if it requested none."""


class Unreachable(KubeError):
    """No answer arrived."""

    def __init__(self, message: str, *, outcome_unknown: bool, retriable: bool = True) -> None:
        """`outcome_unknown`: the request was sent, so the server may have carried it out."""
        super().__init__(message)
        self.outcome_unknown = outcome_unknown
        self.retriable = retriable


class UnreadableAnswer(KubeError):
    """A success answer whose body is not the object; a write has been carried out all the same.

    The error repeats until the object, or the proxy that answers for the server, is corrected.
    """


class NotKubernetes(KubeError):
    """The answer does not come from an API server, but from a proxy or another program at that address.

    The outcome is unknown: a caller that treated it as `NotFound` would conclude that objects are gone.
    """

    def __init__(self, response: Response, request: Request, server: str) -> None:
        """`server`: the URL, empty if not known."""
        text = " ".join(response.body[:_QUOTED].decode("utf-8", "replace").split())
        answer = f"{response.status}: {text}" if text else str(response.status)
        where = f" at {server}" if server else ""
        super().__init__(
            f"cannot {describe(request)}: the answer does not come from a Kubernetes API server{where} "
            f"(found {answer}); correct `server` of the current context in the kubeconfig"
        )


class ApiError(KubeError):
    """The server refused the request."""

    reasons: ClassVar[frozenset[str]] = frozenset()
    """Values of `Status.reason` that map to this class."""
    next_step: ClassVar[str] = "check the server's log"

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: StatusDetails | None = None,
        retry_after_s: float | None = None,
        request: Request | None = None,
    ) -> None:
        """`message` is the server's own; `str()` gives the whole sentence."""
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        self.request = request
        self.after_s = retry_after_s
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        attempted = describe(self.request) if self.request else "the request"
        answer = f"{self.status} {self.reason}".strip()
        said = f"{answer}: {self.message.strip()}" if self.message.strip() else answer
        return f"cannot {attempted}: {said.rstrip('.')}; {self._step()}"

    def _step(self) -> str:
        return self.next_step


class Redirected(ApiError):
    """300 to 399: API servers do not redirect; login pages and proxies do."""

    next_step = "correct `server` in the kubeconfig: a proxy or another program answers at this address"


class BadRequest(ApiError):
    """400: the request itself is wrong."""

    reasons = frozenset({"BadRequest"})
    next_step = "correct the request as the message says: a retry of the same request cannot succeed"


class Unauthorized(ApiError):
    """401: the server cannot authenticate the caller."""

    reasons = frozenset({"Unauthorized"})
    next_step = "log in again or renew the credentials of the current context"


class Forbidden(ApiError):
    """403: the caller is authenticated but not allowed, by permissions or by an admission rule such as a quota."""

    reasons = frozenset({"Forbidden"})
    next_step = "change the object, or the rule that the message names"

    @property
    def permission_missing(self) -> bool:
        """Whether the account lacks a permission; otherwise the object breaks a rule."""
        return self.message.lstrip().startswith("User ") or ": User " in self.message

    def _step(self) -> str:
        if self.permission_missing:
            return "grant the permission (`situate manifests` prints the permissions needed) or use another account"
        return self.next_step


class NotFound(ApiError):
    """404: no such object, or the server does not serve the resource."""

    reasons = frozenset({"NotFound"})
    next_step = "check the name and namespace, and that the resource's CRD is installed"


class MethodNotAllowed(ApiError):
    """405: the resource does not support this verb."""

    reasons = frozenset({"MethodNotAllowed"})
    next_step = "use another verb or another subresource"


class NotAcceptable(ApiError):
    """406: the server cannot answer in the requested format."""

    reasons = frozenset({"NotAcceptable"})
    next_step = "request application/json"


class Conflict(ApiError):
    """409: the object has changed, or is not in the state that the call requires."""

    reasons = frozenset({"Conflict"})
    next_step = "read the object again and base the request on its new state"


class AlreadyExists(ApiError):
    """409: an object of this name exists already."""

    reasons = frozenset({"AlreadyExists"})
    next_step = "use the existing object or another name"


class Gone(ApiError):
    """410: the requested data no longer exists and will not come back."""

    reasons = frozenset({"Gone"})
    next_step = "list again"


class Expired(Gone):
    """410: the resourceVersion or continue token is too old."""

    reasons = frozenset({"Expired", "ResourceExpired"})
    next_step = "list again from the beginning"


class RequestEntityTooLarge(ApiError):
    """413: the body is larger than the server accepts."""

    reasons = frozenset({"RequestEntityTooLarge"})
    next_step = "reduce the size of the object"


class UnsupportedMediaType(ApiError):
    """415: the server does not support this content type or patch."""

    reasons = frozenset({"UnsupportedMediaType"})
    next_step = "use another type of patch: custom resources accept merge, JSON and apply patches"


class Invalid(ApiError):
    """422: the object breaks its schema or a validation; `details.causes` names each field."""

    reasons = frozenset({"Invalid"})
    next_step = "correct the fields that the message names"


class TooManyRequests(ApiError):
    """429: the server sheds load, or a disruption budget forbids an eviction at the moment."""

    retriable = True
    reasons = frozenset({"TooManyRequests"})
    next_step = "try again later"

    @property
    def disruption_budget(self) -> bool:
        """Whether a PodDisruptionBudget forbids the eviction, so that only the recovery of pods helps."""
        return any(cause.reason == "DisruptionBudget" for cause in self.details.causes)


class InternalError(ApiError):
    """500: the server failed, for example because a webhook does not answer."""

    retriable = True
    reasons = frozenset({"InternalError"})
    next_step = (
        "try again; if the error remains, check the webhook or component that the message names, and the server's log"
    )


class ServerTimeout(ApiError):
    """500 or 504: the server timed out; the call may have been carried out."""

    retriable = True
    reasons = frozenset({"ServerTimeout", "Timeout"})
    next_step = "read the object again before repeating a write"


class ServiceUnavailable(ApiError):
    """503: the server is starting, stopping or overloaded."""

    retriable = True
    reasons = frozenset({"ServiceUnavailable"})
    next_step = "try again later"


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Expired,
    413: RequestEntityTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServerTimeout,
}
_ALL: Final[tuple[type[ApiError], ...]] = (*_BY_STATUS.values(), AlreadyExists, Gone)
_BY_REASON: Final[Mapping[str, type[ApiError]]] = {reason: class_ for class_ in _ALL for reason in class_.reasons}

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def failure(response: Response, request: Request, server: str) -> KubeError | None:
    """Return the error for an answer; None if it is a success. `server`: its URL, empty if not known."""
    if response.status < 300:
        wanted, given = request.headers.get("accept", ""), response.headers.get("content-type", "")
        # an HTML page of a console, a login or a proxy
        foreign = wanted.startswith("application/json") and given.startswith("text/html")
        return NotKubernetes(response, request, server) if foreign else None
    if response.status in _NO_SUCH_PAGE and not _is_from_kubernetes(response.body):
        return NotKubernetes(response, request, server)
    return refusal(response, request)


def refusal(response: Response, request: Request | None = None) -> ApiError:
    """Return the error for an answer of 300 or more; the reason decides before the status code."""
    try:
        status = decode_status(response.body)
    except Malformed:
        # Not from the API server itself: a proxy's page, or plain text such as "404 page not found".
        text = response.body[:_QUOTED].decode("utf-8", "replace")
        status = Status(message=" ".join(text.split()))
    return from_status(status, request, code=response.status, retry_after=response.headers.get("retry-after", ""))


def from_status(status: Status, request: Request | None = None, *, code: int = 0, retry_after: str = "") -> ApiError:
    """Return the error for a Status, such as the one in an ERROR event of a watch."""
    code = code or status.code
    class_ = _BY_REASON.get(status.reason) or _BY_STATUS.get(code)
    if class_ is None:
        class_ = InternalError if code >= 500 else Redirected if 300 <= code < 400 else ApiError
    said = status.details.retry_after_seconds
    after: float | None = _bounded_s(said) if said > 0 else None
    if retry_after.isascii() and retry_after.isdigit():
        after = _bounded_s(int(retry_after[:9]))
    return class_(code, status.reason, status.message, status.details, after, request)


def _is_from_kubernetes(body: bytes) -> bool:
    """Whether the body is a Status, or `_NO_SUCH_PATH`, which an API server returns for a group it does not serve."""
    try:
        status = decode_status(body)
    except Malformed:
        return body.strip() == _NO_SUCH_PATH
    return status.kind == "Status" or bool(status.reason)


def _bounded_s(asked: int) -> float:
    return float(max(SHORTEST_S, min(asked, LONGEST_S)))


def describe(request: Request) -> str:
    """Describe a request in words: `patch statefulsets/scale web in namespace default`."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return f"{request.method} {request.path}"
    plural, name, subresource = rest[0], "".join(rest[1:2]), "/".join(rest[2:])
    if request.method == "GET":
        verb = "get" if name else "watch" if request.parameter("watch") in ("1", "true") else "list"
    else:
        verb = _VERBS.get(request.method, request.method)
    what = f"{verb} {plural}{'/' + subresource if subresource else ''}{' ' + name if name else ''}"
    return f"{what} in namespace {namespace}" if namespace else what

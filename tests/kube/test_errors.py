from __future__ import annotations

import pytest

from situate.kube import errors
from situate.kube.errors import ApiError, describe, failure, refusal
from situate.objects.messages import Request, Response

PATCH = Request("PATCH", "/apis/apps/v1/namespaces/default/statefulsets/web/scale")


def answer(status: int, reason: str = "", message: str = "no", **headers: str) -> Response:
    body = f'{{"kind":"Status","status":"Failure","reason":"{reason}","message":"{message}","code":{status}}}'
    return Response(status, body.encode(), headers)


@pytest.mark.parametrize(
    ("status", "reason", "class_", "retriable"),
    [
        (400, "BadRequest", errors.BadRequest, False),
        (401, "Unauthorized", errors.Unauthorized, False),
        (403, "Forbidden", errors.Forbidden, False),
        (404, "NotFound", errors.NotFound, False),
        (405, "MethodNotAllowed", errors.MethodNotAllowed, False),
        (406, "NotAcceptable", errors.NotAcceptable, False),
        (409, "Conflict", errors.Conflict, False),
        (409, "AlreadyExists", errors.AlreadyExists, False),
        (410, "Gone", errors.Gone, False),
        (410, "Expired", errors.Expired, False),
        (413, "RequestEntityTooLarge", errors.RequestEntityTooLarge, False),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType, False),
        (422, "Invalid", errors.Invalid, False),
        (429, "TooManyRequests", errors.TooManyRequests, True),
        (500, "InternalError", errors.InternalError, True),
        (500, "ServerTimeout", errors.ServerTimeout, True),
        (503, "ServiceUnavailable", errors.ServiceUnavailable, True),
        (504, "Timeout", errors.ServerTimeout, True),
        pytest.param(409, "", errors.Conflict, False, id="the status decides where there is no reason"),
        pytest.param(410, "", errors.Expired, False, id="410 without a reason"),
        pytest.param(502, "", errors.ServiceUnavailable, True, id="a proxy's bad gateway"),
        pytest.param(403, "SomethingNew", errors.Forbidden, False, id="a reason of the future"),
        pytest.param(507, "", errors.InternalError, True, id="a server error of another kind"),
        pytest.param(418, "", ApiError, False, id="a refusal of another kind"),
        pytest.param(302, "", errors.Redirected, False, id="a redirect, which no API server sends"),
    ],
)
def test_each_way_to_refuse_has_its_class(status: int, reason: str, class_: type[ApiError], retriable: bool) -> None:
    error = refusal(answer(status, reason), PATCH)
    assert type(error) is class_
    assert (error.status, error.reason, error.message, error.retriable) == (status, reason, "no", retriable)
    assert error.request is PATCH
    sentence = str(error)
    assert sentence.startswith(f"cannot patch statefulsets/scale web in namespace default: {status}")
    assert sentence.endswith(f"; {class_.next_step}")
    assert "\n" not in sentence


def test_the_details_of_an_invalid_object() -> None:
    body = (
        b'{"kind":"Status","status":"Failure",'
        b'"message":"Pod \\"v1\\" is invalid: spec.containers[0].image: Required value",'
        b'"reason":"Invalid","details":{"name":"v1","kind":"Pod","causes":[{"reason":"FieldValueRequired",'
        b'"message":"Required value","field":"spec.containers[0].image"}]},"code":422}'
    )
    error = refusal(Response(422, body))
    assert [(cause.field, cause.reason) for cause in error.details.causes] == [
        ("spec.containers[0].image", "FieldValueRequired")
    ]
    assert (error.details.name, error.details.kind) == ("v1", "Pod")


@pytest.mark.parametrize(
    ("body", "header", "after_s"),
    [
        (b'{"reason":"TooManyRequests","details":{"retryAfterSeconds":10}}', "", 10),
        (b'{"reason":"TooManyRequests","details":{"retryAfterSeconds":10}}', "3", 3),
        (b'{"reason":"TooManyRequests"}', "", None),
        (b'{"reason":"TooManyRequests"}', "Wed, 21 Oct 2015 07:28:00 GMT", None),
        (b'{"reason":"TooManyRequests"}', "0", errors.SHORTEST_S),
        (b'{"reason":"TooManyRequests"}', "9" * 5000, errors.LONGEST_S),
        (b'{"reason":"TooManyRequests","details":{"retryAfterSeconds":31536000}}', "", errors.LONGEST_S),
        (b'{"reason":"TooManyRequests","details":{"retryAfterSeconds":-5}}', "", None),
    ],
    ids=lambda value: str(value)[:60],
)
def test_retry_after(body: bytes, header: str, after_s: float | None) -> None:
    assert refusal(Response(429, body, {"retry-after": header})).after_s == after_s


@pytest.mark.parametrize(
    ("message", "missing", "step"),
    [
        ('pods is forbidden: User \\"jane\\" cannot list resource \\"pods\\"', True, "grant the permission"),
        ('User \\"jane\\" cannot get path \\"/metrics\\"', True, "grant the permission"),
        ('pods \\"p\\" is forbidden: exceeded quota: q', False, "change the object, or the rule"),
    ],
)
def test_a_missing_permission_is_told_from_a_rule(message: str, missing: bool, step: str) -> None:
    error = refusal(answer(403, "Forbidden", message))
    assert isinstance(error, errors.Forbidden)
    assert error.permission_missing is missing
    assert f"; {step}" in str(error)


def test_a_disruption_budget_is_told_from_an_overload() -> None:
    body = b'{"reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"needs 2"}]}}'
    error = refusal(Response(429, body))
    assert isinstance(error, errors.TooManyRequests)
    assert error.disruption_budget
    assert not errors.TooManyRequests(429, "", "").disruption_budget


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"404 page not found\n", "404 page not found"),
        (b"<html>\n<body>Bad gateway</body></html>", "<html> <body>Bad gateway</body></html>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[]", "[]"),
        (b"", ""),
        (b'{"details":5}', '{"details":5}'),
    ],
)
def test_answers_that_are_no_status(body: bytes, message: str) -> None:
    error = refusal(Response(404, body), PATCH)
    assert isinstance(error, errors.NotFound)
    assert error.message == message


def test_null_details_as_go_writes_them() -> None:
    error = refusal(Response(403, b'{"reason":"Forbidden","message":"m","details":null,"metadata":{}}'))
    assert (type(error), error.message) == (errors.Forbidden, "m")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request("GET", "/api/v1/pods"), "list pods"),
        (Request("GET", "/api/v1/pods", (("watch", "true"),)), "watch pods"),
        (Request("GET", "/api/v1/namespaces/d"), "get namespaces d"),
        (Request("GET", "/api/v1/namespaces/d/pods/w"), "get pods w in namespace d"),
        (Request("POST", "/api/v1/namespaces/d/pods/w/binding"), "create pods/binding w in namespace d"),
        (Request("PUT", "/apis/x.io/v1/foos/a/status"), "update foos/status a"),
        (Request("DELETE", "/api/v1/nodes/n"), "delete nodes n"),
        (Request("GET", "/version"), "GET /version"),
    ],
)
def test_requests_in_words(request_: Request, words: str) -> None:
    assert describe(request_) == words


LIST = Request("GET", "/api/v1/nodes", (), {"accept": "application/json"})
PAGE = b"<html>hello</html>"


@pytest.mark.finding("N7")
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Response(404, PAGE, {"content-type": "text/html"}), id="a page"),
        pytest.param(Response(404, b'{"detail":"Not Found"}', {}), id="JSON of another program"),
        pytest.param(Response(404, b"", {}), id="nothing"),
        pytest.param(Response(501, PAGE, {}), id="a method that a web server does not know"),
        pytest.param(Response(200, PAGE, {"content-type": "text/html; charset=utf-8"}), id="a greeting"),
    ],
)
def test_a_page_of_another_program_is_told_as_that(response: Response) -> None:
    error = failure(response, LIST, "https://a:6443")
    assert type(error) is errors.NotKubernetes
    assert not error.retriable
    told = "cannot list nodes: the answer does not come from a Kubernetes API server at https://a:6443 (found "
    assert str(error).startswith(f"{told}{response.status}")
    assert str(error).endswith("; correct `server` of the current context in the kubeconfig")


@pytest.mark.finding("N7")
@pytest.mark.parametrize(
    ("response", "class_"),
    [
        pytest.param(answer(404, "NotFound"), errors.NotFound, id="a Status"),
        pytest.param(Response(404, b"404 page not found\n", {}), errors.NotFound, id="a group that is not served"),
        pytest.param(Response(200, b"{}", {"content-type": "application/json"}), type(None), id="a yes"),
        pytest.param(Response(503, PAGE, {}), errors.ServiceUnavailable, id="a proxy whose server is away"),
    ],
)
def test_what_an_api_server_or_its_proxy_says_is_taken_as_that(response: Response, class_: type) -> None:
    assert type(failure(response, LIST, "https://a:6443")) is class_


def test_a_page_is_an_answer_to_whoever_asks_for_one() -> None:
    proxied = Request("GET", "/api/v1/namespaces/a/pods/b/proxy", (), {"accept": "*/*"})
    assert failure(Response(200, PAGE, {"content-type": "text/html"}), proxied, "") is None

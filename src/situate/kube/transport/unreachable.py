"""Explains a missing answer in one sentence that names the server and the next step."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from situate.kube.errors import Unreachable, describe
from situate.kube.login.connection import Connection
from situate.kube.login.urls import without_user
from situate.kube.transport.dial import CONNECT_TIMEOUT_S, BadName, ProxyRefused, ProxyUnreachable
from situate.objects.messages import Request

# OpenSSL's X509_V_ERR_* numbers for common configuration errors.
_EXPIRED: Final = 10
_NOT_YET_VALID: Final = 9
_UNKNOWN_CA: Final = frozenset({2, 18, 19, 20, 21})
_WRONG_NAME: Final = frozenset({62, 64})


def connect_error(error: Exception, request: Request, connection: Connection) -> Unreachable:
    """Build the error for a request that was not sent."""
    attempt = f"cannot {describe(request)} at {connection.server}"
    check = f"check the network and `server` in {connection.source}"
    retriable = True
    match error:
        case ssl.SSLError():
            problem, retriable = _tls_problem(error, connection), False
        case ProxyRefused():
            step = (
                "correct the user in proxy-url"
                if error.status == 407
                else "check that the proxy may connect to the server"
            )
            problem = f"the proxy {without_user(connection.proxy_url)} answered {error.status}; {step}"
        case ProxyUnreachable():
            step = f"correct proxy-url in {connection.source}"
            problem = f"the proxy {without_user(connection.proxy_url)} cannot be used ({error}); {step}"
        case BadName():
            problem, retriable = (
                f"the name of the host is not valid ({error}); correct `server` in {connection.source}",
                False,
            )
        case socket.gaierror():
            problem = (
                f"the name of the host cannot be resolved ({error.strerror}); check `server` in {connection.source}"
            )
        case TimeoutError():
            problem = f"no connection within {CONNECT_TIMEOUT_S:g} s; {check}"
        case ConnectionRefusedError():
            problem = f"connection refused; check that the server runs, and check `server` in {connection.source}"
        case ConnectionError():
            problem = f"the connection was closed while it was being set up; {check}"
        case _:
            problem = f"{error}; {check}"
    return Unreachable(f"{attempt}: {problem}", outcome_unknown=False, retriable=retriable)


def lost_answer_error(error: Exception, request: Request, connection: Connection, timeout_s: float) -> Unreachable:
    """Build the error for a request that was sent."""
    attempt = f"cannot {describe(request)} at {connection.server}"
    if isinstance(error, ssl.SSLError):
        # With TLS 1.3 a server refuses a client certificate only after the handshake; it has not read the request.
        return Unreachable(f"{attempt}: {_tls_problem(error, connection)}", outcome_unknown=False, retriable=False)
    problem = (
        f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    )
    if isinstance(error, ConnectionError) and connection.certificate:
        problem += " (perhaps the server refuses the client certificate)"
    step = (
        "try again"
        if request.method == "GET"
        else "check whether the server carried out the request before you repeat it"
    )
    return Unreachable(f"{attempt}: {problem}; {step}", outcome_unknown=True)


def _tls_problem(error: ssl.SSLError, connection: Connection) -> str:
    where = connection.source
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _EXPIRED:
            return "the server's certificate has expired; renew it, or check this machine's clock"
        if error.verify_code == _NOT_YET_VALID:
            return "the server's certificate is not valid yet; check this machine's clock"
        if error.verify_code in _UNKNOWN_CA:
            return (
                f"the server's certificate is signed by an unknown authority; correct certificate-authority in {where}"
            )
        if error.verify_code in _WRONG_NAME:
            return f"{error.verify_message.rstrip('.')}; set tls-server-name in {where} to a name in the certificate"
        return f"the server's certificate is not valid ({error.verify_message}); correct it or {where}"
    reason = error.reason or str(error)
    if "ALERT" in reason:
        words = reason.split("ALERT_")[-1].replace("_", " ").lower()
        return f"the server refused the client certificate ({words}); renew or correct client-certificate in {where}"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return f"the server does not speak TLS; write http:// instead of https:// in `server` of {where}"
    return f"the TLS handshake failed ({reason}); check `server` in {where}"

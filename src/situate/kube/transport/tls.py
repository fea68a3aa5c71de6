"""Builds the TLS context of a `Connection`; errors name the field of a certificate that cannot be used."""

from __future__ import annotations

import os
import ssl
import tempfile

from situate.kube.login.connection import BadConnection, Connection, Pem
from situate.kube.login.credentials import TlsMaterial


def tls_context(connection: Connection, material: TlsMaterial) -> ssl.SSLContext:
    """Build a context that verifies the server and presents the client certificate, if any.

    The server is verified by the given authorities, or by the system's.
    """
    if material.ca and not connection.insecure_skip_tls_verify:
        context = _trust_context(connection, connection.ca, material.ca)
        # Kubernetes' own certificate authorities lack the extensions that Python 3.13 requires; Go's TLS does not
        # require them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    else:
        context = ssl.create_default_context()  # reads the system's authorities, which takes a while
    if connection.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate:
        _load_certificate(context, connection, material)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _trust_context(connection: Connection, pem: Pem | None, data: bytes) -> ssl.SSLContext:
    """Build a context that trusts these authorities alone."""
    try:
        return ssl.create_default_context(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        place = pem.field if pem else "the certificate authority"
        raise BadConnection(
            f"{connection.source}: {place}: found no usable certificate ({error}); allowed: certificates in PEM"
        ) from error


def _load_certificate(context: ssl.SSLContext, connection: Connection, material: TlsMaterial) -> None:
    """Load the client certificate through a file with mode 0600, because Python reads certificates from files only."""
    handle, path = tempfile.mkstemp(prefix="situate-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(material.certificate.rstrip() + b"\n" + material.key)
        # With an empty password an encrypted key is an error, never a prompt on the terminal.
        context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        place = connection.certificate.field if connection.certificate else "the credential plugin's certificate"
        problem = f"{connection.source}: {place}: certificate and key cannot be used ({error})"
        raise BadConnection(f"{problem}; allowed: a certificate and its unencrypted key, both in PEM") from error
    finally:
        os.unlink(path)

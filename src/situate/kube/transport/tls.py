"""TLS as a `Connection` wants it; certificates that cannot be used are named with the field that holds them."""

from __future__ import annotations

import os
import ssl
import tempfile

from situate.kube.login.connection import BadConnection, Connection, Pem
from situate.kube.login.credentials import TlsMaterial


def tls_context(connection: Connection, material: TlsMaterial) -> ssl.SSLContext:
    """Verifies the server against the given authorities, or the system's; shows the client certificate, if any."""
    if material.ca and not connection.insecure_skip_tls_verify:
        context = _trusting(connection, connection.ca, material.ca)
        # Kubernetes' own certificate authorities lack the extensions that Python 3.13 demands; Go's TLS never does.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    else:
        context = ssl.create_default_context()  # reads the system's authorities, which takes a while
    if connection.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if material.certificate:
        _show_certificate(context, connection, material)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _trusting(connection: Connection, pem: Pem | None, data: bytes) -> ssl.SSLContext:
    """A context that knows these authorities alone."""
    try:
        return ssl.create_default_context(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        place = pem.field if pem else "the certificate authority"
        raise BadConnection(
            f"{connection.source}: {place}: found no usable certificate ({error}); allowed: certificates in PEM"
        ) from error


def _show_certificate(context: ssl.SSLContext, connection: Connection, material: TlsMaterial) -> None:
    """Python reads a client certificate from files only, so it passes through one that nobody else can read."""
    handle, path = tempfile.mkstemp(prefix="situate-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(material.certificate.rstrip() + b"\n" + material.key)
        # The password is never asked for on the terminal: an encrypted key is an error.
        context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        place = connection.certificate.field if connection.certificate else "the credential plugin's certificate"
        problem = f"{connection.source}: {place}: certificate and key cannot be used ({error})"
        raise BadConnection(f"{problem}; allowed: a certificate and its unencrypted key, both in PEM") from error
    finally:
        os.unlink(path)

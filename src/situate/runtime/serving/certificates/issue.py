"""Creates generations of certificates: an authority, and one server certificate that it signs.

The authority's key is discarded after that. Keys are elliptic, because they are created in a millisecond.
`renewal_schedule` decides when to create a generation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from situate.runtime.serving.certificates.renewal_schedule import BACKDATED_S, Generation

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
"""Certificates are valid for these, too: a webhook may run next to the API server.

Only API servers trust the authority.
"""


def host_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the host names of a Service; API servers use the first."""
    inside = f"{service}.{namespace}.svc"
    return (inside, f"{inside}.cluster.local", *LOCAL_NAMES)


def create_generation(names: Sequence[str], now: datetime, life_s: float) -> Generation:
    """Create a generation, valid from `BACKDATED_S` before now until `life_s` after now."""
    begins, ends = _whole_seconds(now.timestamp() - BACKDATED_S), _whole_seconds(now.timestamp() + life_s)
    signing, serving = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    subject = _subject(f"situate {x509.random_serial_number():x}"[:48])  # Go finds an issuer by its name
    identifier = x509.SubjectKeyIdentifier.from_public_key(signing.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())

    def builder(whose: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(whose).issuer_name(subject).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
        return made.add_extension(issuer, critical=False)

    authority = (
        builder(subject, signing)
        .add_extension(identifier, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .sign(signing, hashes.SHA256())
    )
    certificate = (
        builder(_subject(names[0]), serving)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(serving.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(each) for each in names]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return Generation(
        authority.public_bytes(serialization.Encoding.PEM),
        certificate.public_bytes(serialization.Encoding.PEM),
        serving.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        begins.timestamp() + BACKDATED_S,
        ends.timestamp(),
    )


def _whole_seconds(seconds: float) -> datetime:
    """Truncate to whole seconds, the precision of certificates."""
    return datetime.fromtimestamp(int(seconds), UTC)


def _subject(common: str) -> x509.Name:
    """Build a subject from a common name of at most 64 characters; the alternative names are complete."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )

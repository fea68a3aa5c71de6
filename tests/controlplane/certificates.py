"""Keys and certificates of one control plane: an authority, the API server's certificate, the service accounts' key.

Elliptic keys, since they are made in a millisecond. Clients prove who they are by token or by a certificate from
`client`. Everything is valid for a day, from an hour ago.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: bytes  # PEM
    key: bytes  # PEM, PKCS 8, not encrypted


class Authority:
    """Signs certificates; exists in memory only."""

    def __init__(self, name: str, now: datetime.datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = self._key.public_key()
        self._certificate = (
            self._builder(self._name, public, now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, *, names: Sequence[str], addresses: Sequence[str]) -> Pair:
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, (*names, *addresses)[0])]
        return self._signed(subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(alternatives))

    def client(self, user: str, groups: Sequence[str] = (), age: datetime.timedelta = datetime.timedelta()) -> Pair:
        """Kubernetes reads the common name as the user and the organisations as groups.

        `age`: made so long ago; after a day it has expired.
        """
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._signed(subject, ExtendedKeyUsageOID.CLIENT_AUTH, age=age)

    def _signed(
        self,
        subject: list[x509.NameAttribute[str]],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
        age: datetime.timedelta = datetime.timedelta(),
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(x509.Name(subject), key.public_key(), self._now - age)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, made: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(made - datetime.timedelta(hours=1))
            .not_valid_after(made + datetime.timedelta(days=1))
            # Python's strict checking of chains asks for both identifiers.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def signing_key() -> tuple[bytes, bytes]:
    """A key for service-account tokens: private and public part, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private_pem(key), public


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
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

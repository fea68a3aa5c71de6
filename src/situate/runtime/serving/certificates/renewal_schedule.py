"""Plans the next step for an admission webhook's certificates, from the Secret and the clock.

A generation is an authority that has signed one certificate. Its key is not stored, so it can sign no other. At two
thirds of its life the next generation is created and announced with it in `caBundle`. Half-way from there to the end of
the old one, the next one is served. API servers thus trust, at any moment, every certificate that may be served.
`issue` creates keys and `secret_controller` writes objects. Rules: spot P6, B37.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

BACKDATED_S: Final = 300.0
"""How long before its creation a certificate becomes valid, for clocks that are late."""
RENEWED_AT: Final = 2 / 3
"""Share of a generation's life after which its successor is created."""
_MARGIN: Final = 1e-3
"""Seconds added to a moment, so that it has passed when the caller wakes."""
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions raised when a damaged certificate or key is read, wherever the damage is."""
_CURRENT, _NEXT, _PREVIOUS = "", "next-", "previous-"
AUTHORITY: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True)
class Generation:
    """A certificate, its key and its authority in PEM. Times are seconds since the epoch."""

    authority: bytes
    certificate: bytes
    key: bytes
    made: float
    ends: float
    """The earlier end of both certificates."""

    def __repr__(self) -> str:
        """Without the key, which must not reach a log through an error."""
        return f"Generation(made={self.made:.0f}, ends={self.ends:.0f})"

    def renewal_due(self, life_s: float) -> float:
        """Return when the successor is due; `life_s` is the lifetime configured now."""
        return self.made + RENEWED_AT * min(life_s, self.ends - self.made)


@dataclass(frozen=True, slots=True)
class SecretContent:
    """The usable content of the Secret."""

    current: Generation
    next: Generation | None = None
    previous: bytes = b""
    """The authority before the current one; empty if there is none or it has expired."""
    previous_ends: float = -math.inf

    def bundle(self) -> bytes:
        """Return the authorities that API servers must trust."""
        return join_bundle([self.previous, self.current.authority, self.next.authority if self.next else b""])


class Unusable(Enum):
    """Why a Secret holds no usable certificate."""

    EMPTY = "the Secret is empty"
    UNREADABLE = "the Secret contains no readable certificate and key"
    FOREIGN = "the certificate is not signed by its authority, or is not valid for the Service"
    ENDED = "the certificate has expired"
    NOT_YET = "the certificate is not valid yet"


@dataclass(frozen=True, slots=True)
class Create:
    """Create a generation and serve it at once: none can be used."""

    reason: Unusable


@dataclass(frozen=True, slots=True)
class Prepare:
    """Create the next generation and announce it."""


@dataclass(frozen=True, slots=True)
class Promote:
    """Serve the next generation from now on; the current authority is trusted until it expires."""

    content: Mapping[str, bytes]
    """The Secret's content after the step."""


@dataclass(frozen=True, slots=True)
class Wait:
    until: float
    """When to check again, if nothing changes before."""


Step: TypeAlias = Create | Prepare | Promote | Wait


@dataclass(frozen=True, slots=True)
class Plan:
    """The certificates to serve, with the authorities that API servers must trust, and the next step."""

    held: SecretContent | None
    """None: no certificate can be served until there is a new generation."""
    step: Step


def plan_renewal(
    content: Mapping[str, bytes], names: Collection[str], now: float, life_s: float, published: bytes | None
) -> Plan:
    """Plan from the Secret's content.

    `names` are the host names for which a certificate must be valid. `published` is the current `caBundle` of API
    servers. It is None without a webhook configuration; then nothing has to be announced first.
    """
    held = read_content(content, names, now)
    if isinstance(held, Unusable):
        return Plan(None, Create(held))
    current, successor = held.current, held.next
    if successor is None:
        if now >= current.renewal_due(life_s):
            return Plan(held, Prepare())
        return Plan(held, Wait(_next_check(current.renewal_due(life_s), held.previous_ends, now)))
    due = successor.made + max(0.0, current.ends - successor.made) / 2
    known = published is None or successor.authority.strip() in published
    if now >= due and known:
        return Plan(held, Promote(promoted_content(held)))
    return Plan(held, Wait(_next_check(due if now < due else current.ends, held.previous_ends, now)))


def read_content(content: Mapping[str, bytes], names: Collection[str], now: float) -> SecretContent | Unusable:
    """Read a Secret's content. An unusable next generation counts as none, and is created again."""
    current = _read_generation(content, _CURRENT, names, now)
    if isinstance(current, Unusable):
        successor = _read_generation(content, _NEXT, names, now)
        if isinstance(successor, Unusable):
            return current
        return SecretContent(successor)  # already announced, or as good as a new one
    successor = _read_generation(content, _NEXT, names, now)
    authority = _authority(content.get(_PREVIOUS + AUTHORITY, b""))
    held = SecretContent(current, None if isinstance(successor, Unusable) else successor)
    if authority is None or _valid_until(authority) <= now:
        return held
    return replace(held, previous=_pem(authority), previous_ends=_valid_until(authority))


def first_content(generation: Generation, before: Mapping[str, bytes], now: float) -> dict[str, bytes]:
    """Build the Secret's content with a first generation, or with one that replaces unusable content.

    An existing authority stays trusted until it expires: another process may still serve a certificate that it signed.
    """
    authority = _authority(before.get(AUTHORITY, b""))
    known = {_PREVIOUS + AUTHORITY: _pem(authority)} if authority is not None and _valid_until(authority) > now else {}
    return _content(_CURRENT, generation) | known


def prepared_content(held: SecretContent, successor: Generation) -> dict[str, bytes]:
    """Build the Secret's content with the next generation added."""
    known = {_PREVIOUS + AUTHORITY: held.previous} if held.previous else {}
    return _content(_CURRENT, held.current) | _content(_NEXT, successor) | known


def promoted_content(held: SecretContent) -> dict[str, bytes]:
    """Build the Secret's content for serving the next generation."""
    assert held.next is not None
    return _content(_CURRENT, held.next) | {_PREVIOUS + AUTHORITY: held.current.authority}


def decode_data(data: Mapping[str, str]) -> dict[str, bytes]:
    """Decode a Secret's `data`; values that are no base64 are left out, as if they were missing."""
    content = {}
    for key, value in data.items():
        try:
            content[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            continue
    return content


def encode_data(content: Mapping[str, bytes]) -> dict[str, str]:
    """Encode content for a Secret's `data`."""
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def join_bundle(authorities: Iterable[bytes]) -> bytes:
    """Join authorities to a bundle, each once, in this order."""
    return b"".join(each.strip() + b"\n" for each in dict.fromkeys(filter(None, authorities)))


def _content(prefix: str, generation: Generation) -> dict[str, bytes]:
    return {
        prefix + AUTHORITY: generation.authority,
        prefix + CERTIFICATE: generation.certificate,
        prefix + KEY: generation.key,
    }


def _read_generation(
    content: Mapping[str, bytes], prefix: str, names: Collection[str], now: float
) -> Generation | Unusable:
    authority, certificate, key = (content.get(prefix + part, b"") for part in (AUTHORITY, CERTIFICATE, KEY))
    if not (authority or certificate or key):
        return Unusable.EMPTY
    try:
        found = _check_generation(authority, certificate, key, frozenset(names))
    except _UNREADABLE:  # some fields of a certificate are parsed only when they are read
        return Unusable.UNREADABLE
    if isinstance(found, Unusable):
        return found
    if now >= found.ends:
        return Unusable.ENDED
    if now < found.made - BACKDATED_S:
        return Unusable.NOT_YET
    return replace(found, made=min(found.made, now))


@lru_cache(maxsize=8)  # the same few certificates are checked repeatedly
def _check_generation(
    authority_pem: bytes, certificate_pem: bytes, key_pem: bytes, names: frozenset[str]
) -> Generation | Unusable:
    """Make all checks that do not need the clock."""
    authority, certificate = _authority(authority_pem), x509.load_pem_x509_certificate(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, None)
    if authority is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return Unusable.UNREADABLE
    if certificate.public_key() != key.public_key():
        return Unusable.UNREADABLE
    if not _is_signed_by(certificate, authority) or not names <= _names(certificate):
        return Unusable.FOREIGN
    ends = min(_valid_until(authority), _valid_until(certificate))
    begins = max(_valid_from(authority), _valid_from(certificate))
    return Generation(_pem(authority), _pem(certificate), key_pem, begins + BACKDATED_S, ends)


def _authority(pem: bytes) -> x509.Certificate | None:
    """Return the certificate, if it can be read and may sign others."""
    try:
        found = x509.load_pem_x509_certificate(pem)
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
        _valid_until(found)
    except _UNREADABLE:
        return None
    return found if constraints.ca else None


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _names(certificate: x509.Certificate) -> set[str]:
    """Return host names and addresses; empty if the certificate names none."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _valid_from(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _valid_until(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _next_check(moment: float, previous_ends: float, now: float) -> float:
    """Return the next moment at which the plan changes; the expiry of the previous authority is one."""
    return min(each for each in (moment, previous_ends) if each > now or each == moment) + _MARGIN

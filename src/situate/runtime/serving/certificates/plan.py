"""What is to be done about the certificates of an admission webhook (spot P6, B37): read the Secret, look at the clock.

A generation is an authority that has signed one certificate; its own key is kept nowhere, so nobody can sign another.
At two thirds of its life the next one is made and announced beside it in `caBundle`; half-way from there to the end of
the old one the next is served. API servers thus trust every certificate that they may meet, at any moment. Making keys
and writing objects is left to `issuing` and `upkeep`.
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
"""Certificates are valid from so long before they were made, for clocks that are late."""
RENEWED_AT: Final = 2 / 3
"""Of its life."""
_MARGIN: Final = 1e-3
"""Seconds that a moment is put off, so that whoever wakes then finds it over."""
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What reading somebody else's certificate or key raises, wherever in it the damage is."""
_CURRENT, _NEXT, _PREVIOUS = "", "next-", "previous-"
AUTHORITY: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True)
class Generation:
    """PEM, all three. Times are seconds since the epoch."""

    authority: bytes
    certificate: bytes
    key: bytes
    made: float
    ends: float
    """The first of both to end."""

    def __repr__(self) -> str:
        """Without the key: it must not reach a log by way of an error."""
        return f"Generation(made={self.made:.0f}, ends={self.ends:.0f})"

    def renewed_from(self, life_s: float) -> float:
        """When its successor is due; `life_s` is what is configured now."""
        return self.made + RENEWED_AT * min(life_s, self.ends - self.made)


@dataclass(frozen=True, slots=True)
class Held:
    """What the Secret holds, as far as it can be used."""

    current: Generation
    next: Generation | None = None
    previous: bytes = b""
    """The authority before the present one; empty if there was none or it has ended."""
    previous_ends: float = -math.inf

    def bundle(self) -> bytes:
        """Whom API servers have to trust."""
        return joined([self.previous, self.current.authority, self.next.authority if self.next else b""])


class Unusable(Enum):
    """Why a Secret gives nothing to serve with."""

    EMPTY = "it is empty"
    UNREADABLE = "it holds no certificate and key that can be read"
    FOREIGN = "its certificate is not signed by its authority, or is not for our Service"
    ENDED = "its certificate has ended"
    NOT_YET = "its certificate is not valid yet"


@dataclass(frozen=True, slots=True)
class Create:
    """Make a generation and serve it at once: there is none that can be used."""

    reason: Unusable


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the next generation and announce it."""


@dataclass(frozen=True, slots=True)
class Promote:
    """Serve the next generation from now on; the present authority is trusted until it ends."""

    content: Mapping[str, bytes]
    """Of the Secret then."""


@dataclass(frozen=True, slots=True)
class Keep:
    until: float
    """When to look again, if nothing changes before."""


Step: TypeAlias = Create | Prepare | Promote | Keep


@dataclass(frozen=True, slots=True)
class Plan:
    """What to serve with, whom API servers have to trust, and what to do first."""

    held: Held | None
    """None: nothing can be served until there is a new generation."""
    step: Step


def plan(
    content: Mapping[str, bytes], names: Collection[str], now: float, life_s: float, published: bytes | None
) -> Plan:
    """What follows from the Secret's content.

    `names` are the host names that a certificate has to be for. `published` is the `caBundle` that API servers have at
    present; None where there is no webhook configuration, and so nothing to wait for.
    """
    held = read(content, names, now)
    if isinstance(held, Unusable):
        return Plan(None, Create(held))
    current, successor = held.current, held.next
    if successor is None:
        if now >= current.renewed_from(life_s):
            return Plan(held, Prepare())
        return Plan(held, Keep(_soonest(current.renewed_from(life_s), held.previous_ends, now)))
    due = successor.made + max(0.0, current.ends - successor.made) / 2
    known = published is None or successor.authority.strip() in published
    if now >= due and known:
        return Plan(held, Promote(promoted(held)))
    return Plan(held, Keep(_soonest(due if now < due else current.ends, held.previous_ends, now)))


def read(content: Mapping[str, bytes], names: Collection[str], now: float) -> Held | Unusable:
    """What a Secret holds. A next generation that cannot be used counts as none; it is made anew."""
    current = _generation(content, _CURRENT, names, now)
    if isinstance(current, Unusable):
        successor = _generation(content, _NEXT, names, now)
        if isinstance(successor, Unusable):
            return current
        return Held(successor)  # announced already, or as good as a new one
    successor = _generation(content, _NEXT, names, now)
    authority = _authority(content.get(_PREVIOUS + AUTHORITY, b""))
    held = Held(current, None if isinstance(successor, Unusable) else successor)
    if authority is None or _ends(authority) <= now:
        return held
    return replace(held, previous=_pem(authority), previous_ends=_ends(authority))


def created(generation: Generation, before: Mapping[str, bytes], now: float) -> dict[str, bytes]:
    """The Secret's content with a first generation, or one in the place of what cannot be used.

    An authority that was there stays trusted until it ends: another process may still serve what it signed.
    """
    authority = _authority(before.get(AUTHORITY, b""))
    known = {_PREVIOUS + AUTHORITY: _pem(authority)} if authority is not None and _ends(authority) > now else {}
    return _content(_CURRENT, generation) | known


def prepared(held: Held, successor: Generation) -> dict[str, bytes]:
    """The Secret's content with the next generation beside the present one."""
    known = {_PREVIOUS + AUTHORITY: held.previous} if held.previous else {}
    return _content(_CURRENT, held.current) | _content(_NEXT, successor) | known


def promoted(held: Held) -> dict[str, bytes]:
    """The Secret's content once the next generation is served."""
    assert held.next is not None
    return _content(_CURRENT, held.next) | {_PREVIOUS + AUTHORITY: held.current.authority}


def decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    """A Secret's `data`; values that are no base64 are left out, as if they were missing."""
    content = {}
    for key, value in data.items():
        try:
            content[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            continue
    return content


def encoded(content: Mapping[str, bytes]) -> dict[str, str]:
    """For a Secret's `data`."""
    return {key: base64.b64encode(value).decode() for key, value in content.items()}


def joined(authorities: Iterable[bytes]) -> bytes:
    """A bundle, each authority once, in this order."""
    return b"".join(each.strip() + b"\n" for each in dict.fromkeys(filter(None, authorities)))


def _content(prefix: str, generation: Generation) -> dict[str, bytes]:
    return {
        prefix + AUTHORITY: generation.authority,
        prefix + CERTIFICATE: generation.certificate,
        prefix + KEY: generation.key,
    }


def _generation(content: Mapping[str, bytes], prefix: str, names: Collection[str], now: float) -> Generation | Unusable:
    authority, certificate, key = (content.get(prefix + part, b"") for part in (AUTHORITY, CERTIFICATE, KEY))
    if not (authority or certificate or key):
        return Unusable.EMPTY
    try:
        found = _checked(authority, certificate, key, frozenset(names))
    except _UNREADABLE:  # a certificate is parsed only as far as it is asked about
        return Unusable.UNREADABLE
    if isinstance(found, Unusable):
        return found
    if now >= found.ends:
        return Unusable.ENDED
    if now < found.made - BACKDATED_S:
        return Unusable.NOT_YET
    return replace(found, made=min(found.made, now))


@lru_cache(maxsize=8)  # the same few are looked at again and again
def _checked(
    authority_pem: bytes, certificate_pem: bytes, key_pem: bytes, names: frozenset[str]
) -> Generation | Unusable:
    """All but what the clock says of it."""
    authority, certificate = _authority(authority_pem), x509.load_pem_x509_certificate(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, None)
    if authority is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return Unusable.UNREADABLE
    if certificate.public_key() != key.public_key():
        return Unusable.UNREADABLE
    if not _signed_by(certificate, authority) or not names <= _names(certificate):
        return Unusable.FOREIGN
    ends = min(_ends(authority), _ends(certificate))
    begins = max(_begins(authority), _begins(certificate))
    return Generation(_pem(authority), _pem(certificate), key_pem, begins + BACKDATED_S, ends)


def _authority(pem: bytes) -> x509.Certificate | None:
    """The certificate, if it can be read and may sign others."""
    try:
        found = x509.load_pem_x509_certificate(pem)
        constraints = found.extensions.get_extension_for_class(x509.BasicConstraints).value
        _ends(found)
    except _UNREADABLE:
        return None
    return found if constraints.ca else None


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _names(certificate: x509.Certificate) -> set[str]:
    """Host names and addresses; none where it names none."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _begins(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _ends(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _soonest(moment: float, previous_ends: float, now: float) -> float:
    """The next moment at which something changes; the end of the previous authority is one."""
    return min(each for each in (moment, previous_ends) if each > now or each == moment) + _MARGIN

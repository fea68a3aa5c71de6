from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from situate.runtime.serving.certificates.issue import create_generation, host_names
from situate.runtime.serving.certificates.renewal_schedule import (
    BACKDATED_S,
    SecretContent,
    first_content,
    read_content,
)

NOW = datetime(2030, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
NAMES = host_names("situate-spot", "situate")


def test_a_strict_client_trusts_it_under_every_name() -> None:
    made = create_generation(NAMES, NOW, 60.0)
    store = Store(x509.load_pem_x509_certificates(made.authority))
    policy = PolicyBuilder().store(store).time(NOW.replace(tzinfo=None))
    leaf = x509.load_pem_x509_certificate(made.certificate)
    for name in NAMES:
        if name.startswith(("situate", "localhost")):
            policy.build_server_verifier(x509.DNSName(name)).verify(leaf, [])


def test_it_is_what_its_reader_expects() -> None:
    made = create_generation(NAMES, NOW, 60.0)
    found = read_content(first_content(made, {}, NOW.timestamp()), NAMES, NOW.timestamp())
    assert isinstance(found, SecretContent)
    assert found.current == made
    assert made.made == pytest.approx(NOW.timestamp(), abs=1)
    assert made.ends == pytest.approx(NOW.timestamp() + 60, abs=1)
    begins = x509.load_pem_x509_certificate(made.certificate).not_valid_before_utc
    assert begins.timestamp() == made.made - BACKDATED_S


def test_a_long_name_of_a_namespace_does_not_hinder_it() -> None:
    names = host_names("situate-spot", "n" * 63)
    made = create_generation(names, NOW, 60.0)
    assert isinstance(read_content(first_content(made, {}, NOW.timestamp()), names, NOW.timestamp()), SecretContent)


def test_a_key_is_never_shown() -> None:
    assert "PRIVATE" not in repr(create_generation(NAMES, NOW, 60.0))

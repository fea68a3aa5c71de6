"""What follows from a Secret's content and the time; certificates are made for real, the clock is a number."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from situate.runtime.serving.certificates.issue import create_generation, host_names
from situate.runtime.serving.certificates.renewal_schedule import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    Create,
    Generation,
    Plan,
    Prepare,
    Promote,
    SecretContent,
    Unusable,
    Wait,
    decode_data,
    encode_data,
    first_content,
    join_bundle,
    plan_renewal,
    prepared_content,
    read_content,
)

NAMES = host_names("situate-spot", "situate")
START = 1_900_000_000.0
LIFE_S = 60.0


@cache
def made_at(now: float, life_s: float = LIFE_S, names: tuple[str, ...] = NAMES) -> Generation:
    return create_generation(names, datetime.fromtimestamp(now, UTC), life_s)


def secret(one: Generation) -> dict[str, bytes]:
    return first_content(one, {}, START)


def planned(content: Mapping[str, bytes], now: float, published: bytes | None = b"", life_s: float = LIFE_S) -> Plan:
    return plan_renewal(content, NAMES, now, life_s, published)


@pytest.mark.rule("spot:P6")
@pytest.mark.parametrize(
    ("content", "now", "reason"),
    [
        pytest.param({}, START, Unusable.EMPTY, id="as the manifest brings it"),
        pytest.param({CERTIFICATE: b"", KEY: b"", AUTHORITY: b""}, START, Unusable.EMPTY, id="keys without values"),
        pytest.param({CERTIFICATE: b"x", KEY: b"y", AUTHORITY: b"z"}, START, Unusable.UNREADABLE, id="garbage"),
        pytest.param(
            secret(made_at(START)) | {KEY: made_at(START + 1).key}, START, Unusable.UNREADABLE, id="other key"
        ),
        pytest.param({**secret(made_at(START)), KEY: b""}, START, Unusable.UNREADABLE, id="half of it is lost"),
        pytest.param(
            secret(made_at(START)) | {AUTHORITY: made_at(START + 1).authority},
            START,
            Unusable.FOREIGN,
            id="authority of somebody else",
        ),
        pytest.param(
            secret(made_at(START)) | {AUTHORITY: made_at(START).certificate},
            START,
            Unusable.UNREADABLE,
            id="no authority",
        ),
        pytest.param(
            secret(made_at(START, LIFE_S, ("other.example.com",))), START, Unusable.FOREIGN, id="for another name"
        ),
        pytest.param(secret(made_at(START)), START + LIFE_S, Unusable.ENDED, id="too late"),
        pytest.param(secret(made_at(START)), START - 3600, Unusable.NOT_YET, id="the clock went back"),
    ],
)
def test_what_cannot_be_served_is_made_anew(content: Mapping[str, bytes], now: float, reason: Unusable) -> None:
    assert planned(content, now) == Plan(None, Create(reason))


def test_an_authority_that_is_still_trusted_stays_so_when_its_certificate_is_replaced() -> None:
    broken = secret(made_at(START)) | {KEY: b""}
    content = first_content(made_at(START + 10), broken, START + 10)
    found = read_content(content, NAMES, START + 10)
    assert isinstance(found, SecretContent)
    assert found.bundle() == join_bundle([made_at(START).authority, made_at(START + 10).authority])


@pytest.mark.rule("spot:P6")
@pytest.mark.parametrize(
    ("now", "step"),
    [
        pytest.param(START, Wait, id="new"),
        pytest.param(START + 39, Wait, id="just before two thirds"),
        pytest.param(START + 40, Prepare, id="two thirds"),
        pytest.param(START + 59, Prepare, id="nearly over"),
    ],
)
def test_the_successor_comes_at_two_thirds_of_a_life(now: float, step: type[object]) -> None:
    assert isinstance(planned(secret(made_at(START)), now).step, step)


def test_a_shorter_life_in_the_configuration_counts_at_once() -> None:
    content = secret(made_at(START, 3600.0))
    assert isinstance(planned(content, START + 41, life_s=60.0).step, Prepare)
    assert isinstance(planned(content, START + 41, life_s=3600.0).step, Wait)


@pytest.mark.rule("spot:P6", "spot:B37")
def test_the_successor_is_served_only_when_it_has_been_announced() -> None:
    held = read_content(secret(made_at(START)), NAMES, START)
    assert isinstance(held, SecretContent)
    content = prepared_content(held, made_at(START + 40))
    both = made_at(START).authority + made_at(START + 40).authority

    early = planned(content, START + 49, both)
    assert isinstance(early.step, Wait)
    assert START + 50 <= early.step.until <= START + 50.1
    unannounced = planned(content, START + 50, made_at(START).authority)
    assert isinstance(unannounced.step, Wait)
    assert unannounced.held is not None
    assert unannounced.held.current == made_at(START)
    assert unannounced.held.bundle() == both

    turned = planned(content, START + 50, both)
    assert isinstance(turned.step, Promote)
    after = planned(turned.step.content, START + 50, both)
    assert after.held is not None
    assert after.held.current == made_at(START + 40)
    assert after.held.bundle() == both, "who has not heard of it yet still trusts the old one"
    assert planned(turned.step.content, START + 60).held == SecretContent(made_at(START + 40))


def test_without_a_webhook_configuration_nothing_is_waited_for() -> None:
    held = read_content(secret(made_at(START)), NAMES, START)
    assert isinstance(held, SecretContent)
    content = prepared_content(held, made_at(START + 40))
    assert isinstance(planned(content, START + 50, None).step, Promote)


def test_a_successor_takes_over_from_what_has_ended() -> None:
    """Nobody led for a while."""
    held = read_content(secret(made_at(START)), NAMES, START)
    assert isinstance(held, SecretContent)
    content = prepared_content(held, made_at(START + 40))
    late = planned(content, START + 61)
    assert late.held == SecretContent(made_at(START + 40))


@given(st.dictionaries(st.sampled_from([AUTHORITY, CERTIFICATE, KEY, "next-ca.crt", "previous-ca.crt"]), st.binary()))
def test_no_content_of_a_secret_is_too_strange(content: dict[str, bytes]) -> None:
    assert isinstance(planned(content, START).step, Create)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(st.data(), st.sampled_from([AUTHORITY, CERTIFICATE, KEY]))
def test_damaged_pem_is_never_served(data: st.DataObject, key: str) -> None:
    content = secret(made_at(START))
    damaged = bytearray(ssl.PEM_cert_to_DER_cert(content[key].decode().replace("PRIVATE KEY", "CERTIFICATE")))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    pem = ssl.DER_cert_to_PEM_cert(bytes(damaged))
    if key == KEY:
        pem = pem.replace("CERTIFICATE", "PRIVATE KEY")
    found = planned({**content, key: pem.encode()}, START)
    if found.held is not None:
        x509.load_pem_x509_certificate(found.held.current.certificate).verify_directly_issued_by(
            x509.load_pem_x509_certificate(found.held.current.authority)
        )


@given(
    st.lists(st.tuples(st.floats(0.1, 40.0), st.booleans()), min_size=5, max_size=40),
    st.sampled_from([60.0, 90.0, 600.0]),
)
@pytest.mark.rule("spot:B37")
def test_who_looks_now_and_then_never_serves_what_api_servers_do_not_trust(
    looks: list[tuple[float, bool]], life_s: float
) -> None:
    """`looks`: seconds since the last one, and whether `caBundle` can be written then."""
    now, content, published = START, dict[str, bytes](), b""
    served: Generation | None = None
    for wait_s, can_publish in looks:
        now += wait_s
        for _ in range(6):
            found = planned(content, now, published, life_s)
            if found.held is not None:
                if can_publish:
                    published = found.held.bundle()
                if served is not None and found.held.current != served and now < served.ends:
                    assert found.held.current.authority in published, "a planned change must be announced first"
                served = found.held.current
                assert now < served.ends
            match found.step:
                case Create():
                    content = first_content(made_at(now, life_s), content, now)
                case Prepare():
                    assert found.held is not None
                    content = prepared_content(found.held, made_at(now, life_s))
                case Promote(after):
                    content = dict(after)
                case Wait(until):
                    assert until > now
                    break
        else:
            pytest.fail("it does not come to rest")


def test_values_that_are_no_base64_are_missing() -> None:
    assert decode_data({"a": "!", "b": "eA==", "c": "\u00e4"}) == {"b": b"x"}
    assert encode_data({"b": b"x"}) == {"b": "eA=="}

"""The installation's own certificates: one Secret, kept by whoever leads, shown by every replica."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from situate.runtime.serving.certificates.renewal_schedule import AUTHORITY, decode_data
from situate.testing.vm.world.processes import NAMESPACE, VmWorld
from situate.vm.config.settings import EvictionSettings
from situate.vm.controller.setup import VmSetup
from situate.vm.protocol.eviction_webhook_objects import AUTHORITY_KEYS, CERTIFICATES, SERVICE
from situate.vm.server.certificates import Certificates

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
NO_CHECK_TIME = 0x200000
"""`X509_V_FLAG_NO_CHECK_TIME` of OpenSSL, for which Python has no name: the world has a clock of its own."""
NAME = f"{SERVICE}.{NAMESPACE}.svc"


class Installation:
    """Two replicas, whose permit ports show what is issued."""

    def __init__(self, world: VmWorld) -> None:
        self.world = world

    def certificates(self) -> list[Certificates]:
        found = [member.controller.certificates for member in self.world.members]
        assert all(found)
        return [each for each in found if each is not None]

    def install(self) -> None:
        """The Secret as it is printed: empty."""
        self.world.call("POST", SECRETS, {"metadata": {"name": CERTIFICATES}, "type": "Opaque"})

    def authorities(self) -> bytes:
        """Whom agents trust by what kubelets mount."""
        held = [each for each in self.world.list_items(SECRETS) if each["metadata"]["name"] == CERTIFICATES]
        content = decode_data(held[0].get("data", {})) if held else {}
        return b"\n".join(content.get(key, b"") for key in AUTHORITY_KEYS)

    def wait(self, holds: Any, within_s: float = 30.0) -> None:
        assert self.world.let_pass(within_s, stop=holds), self.world.notes


@contextmanager
def installation(setup: VmSetup) -> Iterator[Installation]:
    world = VmWorld(1, setup, nodes={"n1": "8"}, processes=2)
    try:
        yield Installation(world)
    finally:
        world.close()


def trusted(context: ssl.SSLContext, authorities: bytes, name: str = NAME) -> bool:
    """Whether a client that trusts these comes to terms with a server that shows what the context has."""
    asking = ssl.create_default_context(cadata=authorities.decode())
    asking.verify_flags |= NO_CHECK_TIME
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        asking.wrap_bio(back, forth, server_hostname=name),
        context.wrap_bio(forth, back, server_side=True),
    ]
    try:
        for _ in range(4):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError:
        return False
    return ends[0].version() is not None and bool(ends[0].getpeercert())


ISSUING = replace(VmSetup(), issues_certificate=True, namespace=NAMESPACE)


@pytest.mark.rule("vm:B44")
@pytest.mark.parametrize("evictions", [None, EvictionSettings(address="127.0.0.1:0")], ids=["alone", "with a webhook"])
def test_whoever_leads_makes_them_and_every_replica_shows_them(evictions: EvictionSettings | None) -> None:
    with installation(replace(ISSUING, evictions=evictions)) as ours:
        ours.world.let_pass(20.0)
        assert ours.world.list_items(SECRETS) == [], "nothing is made where nothing is installed"
        ours.install()
        ours.wait(lambda: all(each._issued.is_set() for each in ours.certificates()))
        shown = [each.context for each in ours.certificates()]
        assert [trusted(each, ours.authorities()) for each in shown] == [True, True]
        assert not trusted(shown[0], ours.authorities(), "elsewhere.example.com")
        ours.wait(lambda: any(each.current_generation is not None for each in ours.certificates()))
        (leader,) = [each.current_generation for each in ours.certificates() if each.current_generation is not None]
        assert leader.authority in ours.authorities()


@pytest.mark.rule("vm:B44")
def test_a_renewed_one_is_announced_before_it_is_shown() -> None:
    """Agents have what was mounted some time ago, and come to terms at every moment."""
    settings = EvictionSettings(address="127.0.0.1:0", certificate_life_s=600)
    with installation(replace(ISSUING, evictions=settings)) as ours:
        ours.install()
        ours.wait(lambda: all(each._issued.is_set() for each in ours.certificates()))
        first, mounted = ours.certificates()[0]._loaded, ours.authorities()
        for _ in range(40):
            ours.world.let_pass(15.0)
            now = ours.authorities()
            for each in ours.certificates():
                assert trusted(each.context, mounted)
            mounted = now
        assert ours.certificates()[0]._loaded != first, "it was renewed"


def test_the_keys_that_agents_mount_are_those_of_the_secret() -> None:
    assert tuple(prefix + AUTHORITY for prefix in ("", "next-", "previous-")) == AUTHORITY_KEYS

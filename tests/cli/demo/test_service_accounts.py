"""As whom the demo's processes act, and that a chapter fails where one of them lacks a right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from situate.cli.demo.chapters import Chapter, ChapterFailed
from situate.cli.demo.command import play_chapter
from situate.cli.demo.demo_processes import DemoProcesses
from situate.cli.demo.service_accounts import granted_actions, kubeconfig_content
from situate.cli.demo.sharding import objects as shard_objects
from situate.cli.demo.spot import objects as spot_objects
from situate.cli.demo.vm import objects as vm_objects
from situate.cli.demo.vpod import objects
from situate.cli.demo.vpod.demo_client import DemoClient
from situate.cli.input.products import Product
from situate.cli.manifests.manifests import Installation, manifest_objects
from situate.kube.login.connection import Connection, Pem
from situate.kube.login.kubeconfig import load_kubeconfig
from situate.objects.reviews.authorization import ResourceAttributes

REFUSED = (
    'cannot patch pods/p: 403 Forbidden: pods "p" is forbidden: User "system:serviceaccount:situate-demo:situate" '
    'cannot patch resource "pods" in API group "" in the namespace "x"; grant the permission'
)
ENDING = 'cannot create events: 403 Forbidden: events "e" is forbidden: unable to create new content; change the object'


async def play(folder: Path, said: str, *, holds: bool = True) -> str:
    """A chapter in which a process logs that."""
    stage = DemoProcesses(folder, folder / "kubeconfig")

    async def chapter(_: DemoClient) -> str:
        stage.log_of("spot").write_text(json.dumps({"message": "a call failed", "error": said}) + "\n")
        if not holds:
            raise ChapterFailed("nothing came about")
        return "all is well"

    return await play_chapter(Chapter("", "", chapter), cast(DemoClient, None), stage)


async def test_a_chapter_fails_where_a_process_lacks_a_right(tmp_path: Path) -> None:
    with pytest.raises(ChapterFailed) as failed:
        await play(tmp_path, REFUSED)
    assert str(failed.value).startswith(
        'the API server refused a call of spot: forbidden: User \\"system:serviceaccount:situate-'
    )
    with pytest.raises(
        ChapterFailed, match=r"^nothing came about; the API server refused a call of spot: .*cannot patch resource"
    ):
        await play(tmp_path, REFUSED, holds=False)


async def test_what_is_refused_for_another_reason_fails_no_chapter(tmp_path: Path) -> None:
    assert await play(tmp_path, ENDING) == "all is well"


def test_an_action_of_each_role_is_asked_for() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "resourceNames": ["d"], "verbs": ["update"]},
    ]
    subjects = [{"kind": "ServiceAccount", "namespace": "system", "name": "situate"}]
    role = {"kind": "Role", "metadata": {"name": "r", "namespace": "n"}, "rules": rules}
    binding = {"kind": "RoleBinding", "metadata": role["metadata"], "roleRef": {"name": "r"}, "subjects": subjects}
    wanted = ResourceAttributes(
        namespace="n", verb="update", group="apps", resource="statefulsets", subresource="scale", name="d"
    )
    assert list(granted_actions([role, binding])) == [("system:serviceaccount:system:situate", wanted)]


@pytest.mark.parametrize(
    ("ca", "shown"),
    [
        pytest.param(None, {}, id="the system's authorities"),
        pytest.param(Pem(b"-----BEGIN"), {"certificate-authority-data": "LS0tLS1CRUdJTg=="}, id="in the file"),
        pytest.param(Pem(path=Path("/etc/ca.crt")), {"certificate-authority": "/etc/ca.crt"}, id="in another file"),
    ],
)
def test_an_account_reaches_the_server_that_the_user_reaches(
    tmp_path: Path, ca: Pem | None, shown: dict[str, str]
) -> None:
    of_user = Connection("https://h:6443", "", ca=ca, tls_server_name="k", proxy_url="http://p", token="theirs")
    made = kubeconfig_content(of_user, "system", "situate", "ours")
    assert made["clusters"][0]["cluster"] == {
        "server": "https://h:6443",
        "tls-server-name": "k",
        "proxy-url": "http://p",
        **shown,
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(made))
    read = load_kubeconfig([file]).connection()
    assert (read.server, read.token, read.namespace) == ("https://h:6443", "ours", "system")


def test_no_two_products_of_the_demo_share_an_account(tmp_path: Path) -> None:
    """Else one would have the rights of the other, or take them from it."""
    told: dict[str, Any] = {
        "situate": (None, objects.CONFIGURATION, objects.SYSTEM),
        "vm": (None, vm_objects.configuration(1), objects.MACHINES_NAMESPACE),
        "spot": (Product.SPOT, spot_objects.configuration(1), objects.SYSTEM),
        "shard": (Product.SHARDING, shard_objects.configuration(tmp_path), objects.SYSTEM),
        "machines": (Product.VM_MACHINES, None, objects.SYSTEM),
        "agent": (Product.VM_AGENT, vm_objects.agent_configuration(1, tmp_path), objects.SYSTEM),
    }
    made: list[tuple[str, str]] = []
    for name, (product, configuration, namespace) in told.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(configuration))
        objects_printed = manifest_objects(product, file if configuration else None, Installation(namespace, "i", 2))
        accounts = (each["metadata"] for each in objects_printed if each["kind"] == "ServiceAccount")
        made += [(each["namespace"], each["name"]) for each in accounts]
    assert len(made) == len(set(made)) == len(told) + 1, made
    assert (objects.SYSTEM, shard_objects.ACCOUNT) in made

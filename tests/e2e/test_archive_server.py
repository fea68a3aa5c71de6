"""`situate sharding archive serve` with a real API server: real tokens, its printed rights, kubectl as client."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.archive.open_archive import open_archiver
from situate.archive.records.record import record_of
from situate.cli.main import app
from situate.testing.sharding.world.reports import CRDS, definition
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.asking import ask
from tests.controlplane.certificates import Authority
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import ReservedPort
from tests.waiting import eventually

pytestmark = [pytest.mark.rule("sharding:K11"), pytest.mark.rule("sharding:X18")]
GROUP = "archived.example.com"
NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}


class Served:
    """The server, and what its clients have."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path, authority: Authority, port: int) -> None:
        self.plane = plane
        self.namespace = namespace
        self.folder = folder
        self.authority = authority
        self.port = port
        self.tls = ssl.create_default_context(cadata=authority.certificate.decode())
        self.reports = f"/apis/{GROUP}/v1/namespaces/{namespace}/reports"

    def account(self, name: str) -> str:
        """A token of a new ServiceAccount that may do nothing."""
        self.plane.request("POST", COLLECTIONS["ServiceAccount"].format(self.namespace), {"metadata": {"name": name}})
        return self.plane.service_account_token(self.namespace, name)

    def let_read(self, name: str) -> None:
        rules = [{"apiGroups": [GROUP], "resources": ["reports"], "verbs": ["get", "list"]}]
        role, place = f"reader-{name}", f"{RBAC}/namespaces/{self.namespace}"
        self.plane.request("POST", f"{place}/roles", {"metadata": {"name": role}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        self.plane.request("POST", f"{place}/rolebindings", binding)

    def ask(self, path: str, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status, text = ask(self.port, "GET", path, tls=self.tls, headers=headers)
        return status, json.loads(text) if text.startswith("{") else text

    def head(self, path: str, token: str) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.tls)
        connection.request("HEAD", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.read() == b""
        connection.close()
        return answer.status

    def kubectl(self, token: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / "client.kubeconfig"
        write_kubeconfig(
            path,
            url=f"https://127.0.0.1:{self.port}",
            authority=self.authority.certificate,
            user="reader",
            token=token,
            namespace=self.namespace,
        )
        return call(self.folder, str(KUBECTL), "--kubeconfig", str(path), *arguments)


def content(name: str, namespace: str) -> dict[str, Any]:
    made = {"apiVersion": f"{GROUP}/v1", "kind": "Report", "metadata": {"name": name, "labels": {"team": "red"}}}
    return made | {"spec": {"pages": 7}}


async def put_archived(url: str, namespace: str) -> None:
    archiver = open_archiver(url, {})
    gone = content("gone", namespace)
    gone["metadata"] |= {"namespace": namespace, "uid": "u-gone", "resourceVersion": "7"}
    gone["metadata"]["creationTimestamp"] = "2026-01-30T12:00:00Z"
    await archiver.put(
        record_of(
            gone, resource="reports", completed_at=NOW, successful=True, reason="Printed", archived_at=NOW, term=1
        )
    )
    await archiver.close()


@pytest.fixture
def served(control_plane: ControlPlane, control_plane_namespace: str, tmp_path: Path) -> Iterator[Served]:
    plane, namespace = control_plane, control_plane_namespace
    plane.request("POST", CRDS, definition(group=GROUP))
    authority = Authority("archive", datetime.datetime.now(datetime.UTC))
    pair = authority.server(names=("localhost",), addresses=("127.0.0.1",))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    root = tmp_path / "archive"
    root.mkdir()
    asyncio.run(put_archived(f"file://{root}", namespace))

    resource = f"{GROUP}/v1/reports"
    printed = CliRunner().invoke(
        app, ["manifests", "archive", "--resource", resource, "--installation-namespace", namespace]
    )
    assert printed.exit_code == 0, printed.stderr
    for each in yaml.safe_load_all(printed.stdout):
        if each["kind"] in COLLECTIONS:
            plane.request("POST", COLLECTIONS[each["kind"]].format(namespace), each)
    kubeconfig = plane.service_account_kubeconfig(namespace, "situate-archive")

    port = ReservedPort()
    server = process(
        tmp_path,
        "serve",
        *("sharding", "archive", "serve", "--resource", resource, "--address", f"127.0.0.1:{port.number}"),
        *("--tls-cert-file", str(tmp_path / "tls.crt"), "--tls-private-key-file", str(tmp_path / "tls.key")),
        *("--archive-url", f"file://{root}", "--kubeconfig", str(kubeconfig)),
    )
    found = Served(plane, namespace, tmp_path, authority, port.number)

    def answers() -> bool:
        try:
            return found.ask("/readyz") == (200, "ok")
        except OSError:
            return False

    eventually("the definition is served", lambda: is_served(plane))
    server.start()
    try:
        server.wait_ready(answers, timeout_s=60)
        plane.request("POST", found.reports, content("here", namespace))
        yield found
    finally:
        server.stop()
        port.release()


def is_served(plane: ControlPlane) -> bool:
    status, _ = ask(
        plane.port,
        "GET",
        f"/apis/{GROUP}/v1/reports",
        tls=plane.tls(),
        headers={"Authorization": f"Bearer {plane.token()}"},
    )
    return status == 200


def test_who_may_read_reads_both_with_kubectl_and_nobody_else_reads(served: Served) -> None:
    reader, stranger = served.account("reader"), served.account("stranger")
    served.let_read("reader")
    gone = f"{served.reports}/gone"

    eventually("the server may ask", lambda: served.ask(gone, "no-such-token"), lambda answer: answer[0] == 401)
    for token in ("", "no-such-token", stranger[:-4] + "AAAA"):
        status, told = served.ask(gone, token)
        assert (status, told["reason"]) == (401, "Unauthorized")
    status, told = served.ask(gone, stranger)
    assert (status, told["reason"]) == (403, "Forbidden")
    assert f'User "system:serviceaccount:{served.namespace}:stranger" cannot get' in told["message"]
    eventually("the reader may read", lambda: served.ask(gone, reader), lambda answer: answer[0] == 200)
    assert (served.head(gone, reader), served.head(f"{served.reports}/nobody", reader)) == (200, 404)
    assert served.head(gone, stranger) == 403

    listed = served.kubectl(reader, "get", "reports", "-l", "team=red")
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert rows[0] == ["NAME", "ARCHIVED", "SUCCESSFUL", "AGE"], listed
    assert rows[1][:2] == ["here", "<live>"]
    assert (rows[2][0], rows[2][2]) == ("gone", "true")
    whole = json.loads(served.kubectl(reader, "get", "report", "gone", "-o", "json").stdout)
    assert whole["spec"] == {"pages": 7}
    described = served.kubectl(reader, "describe", "report", "gone")
    assert "Pages:  7" in described.stdout, described
    watched = served.kubectl(reader, "get", "reports", "-w")
    assert watched.returncode != 0
    assert "this server does not support watch" in watched.stderr
    everywhere = served.kubectl(reader, "get", "reports", "-A")
    assert "is forbidden" in everywhere.stderr
    missing = served.kubectl(reader, "get", "report", "nowhere")
    assert f'reports.{GROUP} "nowhere" not found' in missing.stderr
    written = served.kubectl(reader, "delete", "report", "gone")
    assert written.returncode != 0
    assert "this server is read-only" in written.stderr, written

    served.let_read("stranger")
    eventually("a right that is given counts", lambda: served.ask(gone, stranger), lambda answer: answer[0] == 200)

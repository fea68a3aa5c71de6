"""A real control plane: its ways in, and what a test may do to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.build import Programs
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.plane import ControlPlane, Options, User
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("plane")  # started once for all of them


@pytest.fixture(scope="module")
def plane(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    options = Options(users=(User("alice", ("readers",)),))
    with ControlPlane(tmp_path_factory.mktemp("plane"), options, programs=control_plane_programs) as plane:
        yield plane


def test_it_tells_its_version(plane: ControlPlane) -> None:
    assert plane.request("GET", "/version")["gitVersion"] == "v1.36.3"


def test_users_may_what_rbac_allows(plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match=r'403 .*User \\"alice\\" cannot list resource \\"pods\\"'):
        plane.request("GET", "/api/v1/pods", user="alice")
    role = {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}
    plane.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    binding = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    }
    plane.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    # RBAC is read through a watch: what was written is in force some milliseconds later
    pods = eventually("alice may list pods", lambda: _allowed(plane, "/api/v1/pods", "alice"))
    assert pods["items"] == []


def test_service_accounts_have_tokens(plane: ControlPlane) -> None:
    plane.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    review: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    review["spec"] = {"token": plane.service_account_token("default", "robot")}
    status = plane.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["user"]["username"] == "system:serviceaccount:default:robot"


def test_history_expires_and_objects_stay(plane: ControlPlane) -> None:
    made = plane.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})
    plane.expire_history()
    assert plane.request("GET", "/api/v1/namespaces/default/configmaps/kept") == made


def test_parts_are_paused_and_resumed(plane: ControlPlane) -> None:
    server = plane.component("kube-apiserver")
    server.pause()
    assert server.running
    server.resume()
    assert plane.request("GET", "/version")


def test_a_part_that_was_not_asked_for(plane: ControlPlane) -> None:
    with pytest.raises(ControlPlaneError, match="kwok is not part of this control plane, which runs etcd, kube-api"):
        plane.component("kwok")


def test_a_taken_port_is_said(control_plane_programs: Programs, tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path, Options(), programs=control_plane_programs)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", plane.port))
        taken.listen()
        with (
            pytest.raises(ControlPlaneError, match=r"(?s)kube-apiserver ended with code 1 .*address already in use"),
            plane,
        ):
            pass
    assert not plane._processes


def _allowed(plane: ControlPlane, path: str, user: str) -> Any:
    """The answer, or None while it is refused."""
    try:
        return plane.request("GET", path, user=user)
    except ControlPlaneError as refused:
        if ": 403 " in str(refused):
            return None
        raise

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from situate.kube.connect import connect, find_connection
from situate.kube.errors import Unauthorized
from situate.kube.login.connection import BadConnection, Connection
from situate.kube.login.urls import is_loopback
from situate.objects.resources import PODS
from tests.kube.servers import serving

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
        "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
    )
    return path


def service_account(folder: Path) -> Path:
    folder.mkdir()
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("ca")
    (folder / "namespace").write_text("situate\n")
    return folder


def test_the_order_in_which_is_looked(tmp_path: Path) -> None:
    account = service_account(tmp_path / "account")
    explicit = kubeconfig(tmp_path / "explicit", "https://explicit")
    variable = kubeconfig(tmp_path / "variable", "https://variable")
    kubeconfig(tmp_path / ".kube" / "config", "https://home")
    environ = {**IN_CLUSTER, "KUBECONFIG": f"{tmp_path / 'absent'}:{variable}", "HOME": str(tmp_path)}

    def server(kubeconfig: Path | None, environ: dict[str, str]) -> str:
        return find_connection(kubeconfig, environ=environ, service_account=account).server

    assert server(explicit, environ) == "https://explicit"
    assert server(None, environ) == "https://variable"
    assert server(None, IN_CLUSTER | {"HOME": str(tmp_path)}) == "https://home"
    assert server(None, IN_CLUSTER) == "https://10.96.0.1:443"
    assert server(None, IN_CLUSTER | {"KUBECONFIG": str(tmp_path / "absent")}) == "https://10.96.0.1:443"


def test_in_a_pod(tmp_path: Path) -> None:
    account = service_account(tmp_path / "account")
    found = find_connection(environ=IN_CLUSTER | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=account)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "situate")
    assert found.token_file == account / "token"
    assert found.ca is not None
    assert found.ca.path == account / "ca.crt"
    with pytest.raises(BadConnection, match="context prod: found no kubeconfig, only the service account"):
        find_connection(None, "prod", environ=IN_CLUSTER, service_account=account)


@pytest.mark.parametrize("port", ["tcp://10.0.0.1:443", "0", "65536", "9" * 400])
def test_a_port_of_the_environment_that_is_none(tmp_path: Path, port: str) -> None:
    account = service_account(tmp_path / "account")
    with pytest.raises(BadConnection, match=r"\$KUBERNETES_SERVICE_PORT: found '.*'; allowed: a port from 1 to 65535"):
        find_connection(environ=IN_CLUSTER | {"KUBERNETES_SERVICE_PORT": port}, service_account=account)


def test_nothing_found_says_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(BadConnection) as caught:
        find_connection(environ={"HOME": str(tmp_path)}, service_account=tmp_path / "account")
    assert str(caught.value) == (
        f"no cluster to connect to: $KUBECONFIG is not set, {tmp_path}/.kube/config is missing or empty, and there is "
        f"no service account of a pod in {tmp_path}/account; name a kubeconfig, or set $KUBECONFIG"
    )
    with pytest.raises(BadConnection, match=rf"\$KUBECONFIG {tmp_path}/a, {tmp_path}/b is missing or empty"):
        find_connection(environ={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"}, service_account=tmp_path / "account")


def test_an_explicit_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(BadConnection, match="no such file; name an existing kubeconfig"):
        find_connection(tmp_path / "absent", environ={})


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example.com", {"https_proxy": "p:1"}, "http://p:1"),
        ("http://api.example.com", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("http://api.example.com", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://127.0.0.2:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1"),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, example.com"}, ""),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.com:443"}, ""),
        ("https://example.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example.com"}, "http://p:1"),
        ("https://notexample.com", {"HTTPS_PROXY": "http://p:1", "no_proxy": "example.com"}, "http://p:1"),
        ("https://api.example.com", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, ""),
    ],
)
def test_proxies_of_the_environment(tmp_path: Path, server: str, environ: dict[str, str], proxy: str) -> None:
    assert find_connection(kubeconfig(tmp_path / "c", server), environ=environ).proxy_url == proxy


def test_a_proxy_of_the_environment_that_is_none(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "c", "https://api")
    with pytest.raises(BadConnection, match=r"the environment's proxy: found 'socks5://p'; allowed: http://HOST:PORT"):
        find_connection(path, environ={"HTTPS_PROXY": "socks5://p"})


@pytest.mark.parametrize("proxy", ["socks5://me:SECRET@p", "http://me:SECRET@p:none", "me:SEC/SECRET@p:1"])
def test_a_proxy_of_the_environment_that_is_none_keeps_its_secret(tmp_path: Path, proxy: str) -> None:
    path = kubeconfig(tmp_path / "c", "https://api")
    with pytest.raises(BadConnection, match=r"the environment's proxy: found '.*…@p.*'; allowed:") as caught:
        find_connection(path, environ={"HTTPS_PROXY": proxy})
    assert "SECRET" not in str(caught.value)


async def test_connect_makes_a_client_that_works() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.headers["Authorization"] != "Bearer t":
            return web.json_response(
                {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"}, status=401
            )
        return web.json_response({"metadata": {"name": "w"}})

    async with serving(handler) as port:
        connection = Connection(server=f"http://127.0.0.1:{port}", source="the test", token="t")
        client = connect(connection, Random(1), qps=100)
        assert (await client.get(PODS, "w", "d")).metadata.name == "w"
        await client.close()
        client = connect(Connection(server=connection.server, source="the test", token="x"), Random(1))
        with pytest.raises(Unauthorized, match=r"cannot get pods w in namespace d: 401 Unauthorized.*; log in again"):
            await client.get(PODS, "w", "d")
        await client.close()


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("https://127.0.0.1:6443", True),
        ("http://localhost:8001", True),
        ("https://[::1]:6443/prefix", True),
        ("https://10.0.0.1:6443", False),
        ("https://kubernetes.default.svc", False),
    ],
)
def test_servers_on_this_machine_are_known_by_their_address(url: str, own: bool) -> None:
    assert is_loopback(url) is own

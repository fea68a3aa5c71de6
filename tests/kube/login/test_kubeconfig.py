from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.kube.login.connection import BadConnection, Connection, ExecPlugin, Impersonation
from situate.kube.login.kubeconfig import load_kubeconfig

PEM = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
PEM64 = base64.b64encode(PEM).decode()


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any) -> dict[str, Any]:
    """One context `dev` with one cluster `c` and one user `u`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "dev",
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def connection(folder: Path, content: Any, context: str | None = None) -> Connection:
    return load_kubeconfig([write(folder / "config", content)]).connection(context)


def test_everything_that_a_cluster_can_say(tmp_path: Path) -> None:
    cluster = {
        "server": "https://api.example.com:6443/base/",
        "certificate-authority-data": PEM64,
        "certificate-authority": "ignored because there is data",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "unknown-field": {"of": "another tool"},
    }
    got = connection(tmp_path, config(cluster, namespace="team"))
    assert (got.server, got.namespace) == ("https://api.example.com:6443/base", "team")
    assert (got.tls_server_name, got.proxy_url) == ("kubernetes", "http://proxy:3128")
    assert got.ca is not None
    assert got.ca.data == PEM
    assert got.source == f"context dev of {tmp_path / 'config'}"


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    user = {"client-certificate": "pki/me.crt", "client-key": "/etc/me.key", "tokenFile": "token"}
    got = connection(tmp_path / "deep", config({"certificate-authority": "../ca.crt"}, user))
    assert got.ca is not None
    assert got.certificate is not None
    assert got.key is not None
    assert got.ca.path == tmp_path / "deep" / ".." / "ca.crt"
    assert got.certificate.path == tmp_path / "deep" / "pki" / "me.crt"
    assert got.key.path == Path("/etc/me.key")
    assert got.token_file == tmp_path / "deep" / "token"


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ({"token": "t"}, ("t", "", "")),
        ({"username": "jane", "password": "p"}, ("", "jane", "p")),
        ({}, ("", "", "")),
    ],
)
def test_tokens_and_passwords(tmp_path: Path, user: dict[str, Any], wanted: tuple[str, str, str]) -> None:
    got = connection(tmp_path, config(user=user))
    assert (got.token, got.username, got.password) == wanted
    assert "'p'" not in repr(got)


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["x"]}}
    wanted = Impersonation("jane", "7", ("a", "b"), {"scopes": ("x",)})
    assert connection(tmp_path, config(user=user)).impersonation == wanted


@pytest.mark.parametrize(
    ("command", "wanted"), [("aws", "aws"), ("./bin/login", "FOLDER/bin/login"), ("/bin/login", "/bin/login")]
)
def test_exec_plugin(tmp_path: Path, command: str, wanted: str) -> None:
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": command,
            "args": ["a"],
            "env": [{"name": "N", "value": "v"}],
            "provideClusterInfo": True,
            "installHint": "install it",
        }
    }
    cluster = {"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]}
    assert connection(tmp_path, config(cluster, user)).exec == ExecPlugin(
        api_version="client.authentication.k8s.io/v1beta1",
        command=wanted.replace("FOLDER", str(tmp_path)),
        args=("a",),
        env=(("N", "v"),),
        install_hint="install it",
        provide_cluster_info=True,
        interactive_mode="IfAvailable",
        cluster_config={"audience": "x"},
    )


def test_files_are_merged_and_the_first_wins_whole(tmp_path: Path) -> None:
    first = config({"server": "https://first"}, {"token": "first"})
    del first["current-context"]
    second = config({"server": "https://second", "tls-server-name": "lost"}, {"token": "second"})
    second["contexts"].append({"name": "prod", "context": {"cluster": "c2", "user": "u"}})
    second["clusters"].append({"name": "c2", "cluster": {"server": "https://prod"}})
    second["current-context"] = "prod"
    third = {"current-context": "dev"}
    paths = [write(tmp_path / name, content) for name, content in (("1", first), ("2", second), ("3", third))]
    loaded = load_kubeconfig([tmp_path / "absent", *paths])
    current, dev = loaded.connection(), loaded.connection("dev")
    assert (current.server, current.token) == ("https://prod", "first")
    assert (dev.server, dev.tls_server_name) == ("https://first", "")


def test_absent_and_empty_files_say_nothing(tmp_path: Path) -> None:
    assert load_kubeconfig([tmp_path / "absent", write(tmp_path / "empty", "")]).empty


def user_with_exec(**changes: Any) -> dict[str, Any]:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never", **changes}
    return {"exec": {key: value for key, value in plugin.items() if value is not None}}


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("a: [", "line 1: found while parsing a flow node expected the node content"),
        ("[1, 2]", "the whole file: found [1, 2]; allowed: a mapping of fields to values"),
        ({"kind": "Deployment"}, "kind: found 'Deployment'; allowed: Config"),
        ({"apiVersion": "v2"}, "apiVersion: found 'v2'; allowed: v1"),
        ({"clusters": {}}, "clusters: found {}; allowed: a list"),
        ({"clusters": ["x"]}, "clusters[0]: found 'x'; allowed: a mapping of fields to values"),
        ({"clusters": [{"cluster": {}}]}, "clusters[0].name: found nothing; allowed: text that is not empty"),
        ({"users": [{"name": 5}]}, "users[0].name: found 5; allowed: text; put it in quotes"),
        (
            {"users": [{"name": "x", "user": 5}]},
            "users[0].user: found a hidden value; allowed: a mapping of fields to values",
        ),
        (config() | {"current-context": ""}, "current-context: nothing is set; run `kubectl config use-context NAME`"),
        ({}, "current-context: nothing is set; run `kubectl config use-context NAME` after you add a context"),
        (config() | {"current-context": "prod"}, "current-context: found 'prod'; allowed: dev"),
        (config(cluster={"server": ""}), "clusters[0].cluster.server: found nothing; allowed: text that is not empty"),
        (
            config({"server": "api:6443"}),
            "clusters[0].cluster.server: found 'api:6443'; allowed: http://HOST[:PORT] or https",
        ),
        (config({"server": "https://a:99999"}), "clusters[0].cluster.server: found 'https://a:99999'; allowed: http"),
        (config({"server": "https://[::"}), "clusters[0].cluster.server: found 'https://[::'; allowed: http"),
        (config({"proxy-url": "socks5://p"}), "clusters[0].cluster.proxy-url: found 'socks5://p'; allowed: http://"),
        (
            config({"server": "https://a/b?c=d"}),
            "server: found 'https://a/b?c=d'; allowed: http://HOST[:PORT] or https",
        ),
        (config({"server": "https://a/b c"}), "server: found 'https://a/b c'; allowed: http://HOST[:PORT] or https"),
        (config({"server": "https://a/\n"}), r"server: found 'https://a/\n'; allowed: http://HOST[:PORT] or https"),
        (
            config({"insecure-skip-tls-verify": "yes"}),
            "clusters[0].cluster.insecure-skip-tls-verify: found 'yes'; allowed: true",
        ),
        (
            config({"insecure-skip-tls-verify": True, "certificate-authority": "ca"}),
            "clusters[0].cluster.insecure-skip-tls-verify: found True; allowed: false, because certificate-authority",
        ),
        (
            config({"certificate-authority-data": "%%"}),
            "clusters[0].cluster.certificate-authority-data: found '%%…'; allowed: base64",
        ),
        (config({"certificate-authority-data": "eA=="}), "allowed: base64 of a PEM file, which begins with -----BEGIN"),
        (config(user={"token": 123}), "users[0].user.token: found a hidden value; allowed: text; put it in quotes"),
        (
            config(user={"client-certificate": "x"}),
            "users[0].user.client-key: found nothing; allowed: the key of client-cert",
        ),
        (
            config(user={"client-key": "x"}),
            "users[0].user.client-certificate: found nothing; allowed: the certificate of",
        ),
        (
            config(user={"username": "a", "token": "b"}),
            "users[0].user.username: found 'a'; allowed: no value, because token or tokenFile is set",
        ),
        (
            config(user={"auth-provider": {"name": "gcp"}}),
            "users[0].user.auth-provider: found 'a provider'; allowed: no value",
        ),
        (config(user={"as-groups": ["a"]}), "users[0].user.as: found nothing; allowed: the user to impersonate"),
        (config(user={"as": "x", "as-groups": "a"}), "users[0].user.as-groups: found 'a'; allowed: a list of texts"),
        (
            config(user=user_with_exec(apiVersion="v1")),
            "users[0].user.exec.apiVersion: found 'v1'; allowed: client.authent",
        ),
        (
            config(user=user_with_exec(interactiveMode=None)),
            "users[0].user.exec.interactiveMode: found nothing; allowed: Never",
        ),
        (
            config(user=user_with_exec(interactiveMode="x")),
            "users[0].user.exec.interactiveMode: found 'x'; allowed: Never or",
        ),
        (config(user=user_with_exec(command=None)), "users[0].user.exec.command: found nothing; allowed: text"),
        (
            config(user=user_with_exec(env=[{"value": "x"}])),
            "users[0].user.exec.env[0].name: found nothing; allowed: text",
        ),
        (config() | {"users": []}, "contexts[0].context.user: found 'u'; allowed: a user of"),
        (
            config() | {"clusters": []},
            "contexts[0].context.cluster: found 'c'; allowed: a cluster of this configuration: none",
        ),
    ],
)
def test_each_mistake_names_file_field_value_and_what_is_allowed(tmp_path: Path, content: Any, mistake: str) -> None:
    with pytest.raises(BadConnection) as caught:
        connection(tmp_path, content)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "config"))
    assert mistake in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(
            config({"server": "https://me:SECRET@api"}), "'https://…@api'; allowed: a URL without", id="server"
        ),
        pytest.param(
            config({"proxy-url": "socks5://me:SECRET@p"}), "'socks5://…@p'; allowed: http", id="another proxy"
        ),
        pytest.param(config({"proxy-url": "http://me:SECRET@p:x"}), "'http://…@p:x'; allowed: http", id="its port"),
        pytest.param(config({"proxy-url": "http://me:SEC/SECRET@p"}), "'http://…@p'; allowed: http", id="a slash"),
        pytest.param(config({"proxy-url": "me:SECRET@p:1"}), "'…@p:1'; allowed: http", id="no scheme"),
        pytest.param(
            config() | {"users": [{"name": "u", "user": "SECRET"}]},
            "users[0].user: found a hidden value",
            id="a token for a user",
        ),
        pytest.param(config() | {"users": ["SECRET"]}, "users[0]: found a hidden value", id="a token for an entry"),
        pytest.param(
            config(user=user_with_exec(env=[{"name": "X", "value": ["SECRET"]}])),
            "env[0].value: found a hidden value",
            id="what a plugin is given",
        ),
        pytest.param(
            config(user=user_with_exec(args=["SECRET", 1])), "args: found a hidden value", id="what a plugin is told"
        ),
    ],
)
def test_no_mistake_shows_a_secret(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(BadConnection) as caught:
        connection(tmp_path, content)
    assert "SECRET" not in str(caught.value)
    assert told in str(caught.value)


def test_data_may_stand_in_several_lines(tmp_path: Path) -> None:
    """Go passes over line ends within base64, so such files work with kubectl."""
    found = connection(tmp_path, config({"certificate-authority-data": "LS0tLS1C\nRUdJTi0t\r\nLS0t\n"}))
    assert found.ca is not None
    assert found.ca.data == b"-----BEGIN-----"


def test_a_context_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(BadConnection, match="requested context: found 'prod'; allowed: dev"):
        connection(tmp_path, config(), "prod")


def test_mistakes_of_other_entries_do_not_matter(tmp_path: Path) -> None:
    content = config()
    content["clusters"].append({"name": "broken", "cluster": {"server": "nonsense"}})
    assert connection(tmp_path, content).server == "https://api:6443"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadConnection, match="cannot be read: Is a directory"):
        load_kubeconfig([tmp_path])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConnection, match="byte 0 is not UTF-8"):
        load_kubeconfig([tmp_path / "binary"])

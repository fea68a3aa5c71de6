"""Which cluster, files and namespaces a command is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from situate.cli.read_cluster.cluster_source import default_namespace, listed_namespace, open_client
from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.options import ClusterOptions, ListedNamespaces
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.kube.login.connection import BadConnection
from situate.objects.resources import PODS

NOTHING = "a kubeconfig that is not read, since files are"


ALL = ListedNamespaces(all_namespaces=True)


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterOptions:
    """Of a kubeconfig whose context is in namespace `shop`; nothing listens there."""
    file = tmp_path / "kubeconfig"
    content = kubeconfig("http://127.0.0.1:9")
    content["contexts"][0]["context"]["namespace"] = "shop"
    write_kubeconfig(file, content)
    return ClusterOptions(file)


@pytest.fixture
def files(tmp_path: Path) -> ClusterOptions:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n")
    return ClusterOptions(Path(NOTHING), "no context", [file])


def test_a_list_is_about_the_contexts_namespace_unless_told(cluster: ClusterOptions) -> None:
    assert listed_namespace(cluster, ListedNamespaces()) == "shop"
    assert listed_namespace(cluster, ListedNamespaces("billing")) == "billing"
    assert listed_namespace(cluster, ALL) is None


def test_no_files_are_the_same_as_an_empty_list(cluster: ClusterOptions) -> None:
    assert listed_namespace(replace(cluster, objects=[]), ListedNamespaces()) == "shop"


def test_a_list_of_files_is_about_all_namespaces_unless_told(files: ClusterOptions) -> None:
    assert listed_namespace(files, ListedNamespaces()) is None
    assert listed_namespace(files, ALL) is None
    assert listed_namespace(files, ListedNamespaces("shop")) == "shop"


@pytest.mark.parametrize("where", ["cluster", "files"])
def test_all_namespaces_and_one_are_refused(where: str, request: pytest.FixtureRequest) -> None:
    found: ClusterOptions = request.getfixturevalue(where)
    with pytest.raises(WrongInput, match="-A lists all namespaces, and -n shop only one: leave one of them out"):
        listed_namespace(found, ListedNamespaces("shop", all_namespaces=True))


def test_the_namespace_of_a_name_that_has_none(cluster: ClusterOptions, files: ClusterOptions) -> None:
    assert default_namespace(cluster, None) == "shop"
    assert default_namespace(files, None) == "default"
    assert default_namespace(cluster, "billing") == default_namespace(files, "billing") == "billing"


async def test_files_are_read_and_no_kubeconfig(files: ClusterOptions) -> None:
    async with open_client(files) as client:
        assert [each.metadata.name for each in (await client.list_all(PODS)).items] == ["a"]
        assert client.server == ", ".join(map(str, files.objects or ()))


async def test_a_cluster_is_asked_where_no_file_is_named(cluster: ClusterOptions) -> None:
    async with open_client(cluster) as client:
        assert client.server == "http://127.0.0.1:9"


async def test_a_kubeconfig_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    where = ClusterOptions(tmp_path / "absent")
    with pytest.raises(BadConnection, match="absent"):
        async with open_client(where):
            pass
    with pytest.raises(BadConnection, match="absent"):
        listed_namespace(where, ListedNamespaces())
    assert listed_namespace(where, ALL) is None, "nothing has to be known of it"

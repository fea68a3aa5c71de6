"""Which cluster, files and namespaces a command is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from situate.cli.read_cluster.cluster_source import ClusterSource
from situate.cli.terminal.failures import WrongInput
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.kube.login.connection import BadConnection
from situate.objects.resources import PODS

NOTHING = "a kubeconfig that is not read, since files are"


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterSource:
    """Of a kubeconfig whose context is in namespace `shop`; nothing listens there."""
    file = tmp_path / "kubeconfig"
    content = kubeconfig("http://127.0.0.1:9")
    content["contexts"][0]["context"]["namespace"] = "shop"
    write_kubeconfig(file, content)
    return ClusterSource(file)


@pytest.fixture
def files(tmp_path: Path) -> ClusterSource:
    file = tmp_path / "cluster.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n")
    return ClusterSource.create(Path(NOTHING), "no context", [file])


def test_options_that_are_not_given_are_none_or_empty() -> None:
    assert (
        ClusterSource.create(None, None)
        == ClusterSource.create(None, None, None)
        == ClusterSource.create(None, None, [])
        == ClusterSource()
    )


def test_a_list_is_about_the_contexts_namespace_unless_told(cluster: ClusterSource) -> None:
    assert cluster.listed_namespace(None, of_all=False) == "shop"
    assert cluster.listed_namespace("billing", of_all=False) == "billing"
    assert cluster.listed_namespace(None, of_all=True) is None


def test_a_list_of_files_is_about_all_namespaces_unless_told(files: ClusterSource) -> None:
    assert files.listed_namespace(None, of_all=False) is None
    assert files.listed_namespace(None, of_all=True) is None
    assert files.listed_namespace("shop", of_all=False) == "shop"


@pytest.mark.parametrize("where", ["cluster", "files"])
def test_all_namespaces_and_one_are_refused(where: str, request: pytest.FixtureRequest) -> None:
    found: ClusterSource = request.getfixturevalue(where)
    with pytest.raises(WrongInput, match="-A lists all namespaces, and -n shop only one: leave one of them out"):
        found.listed_namespace("shop", of_all=True)


def test_the_namespace_of_a_name_that_has_none(cluster: ClusterSource, files: ClusterSource) -> None:
    assert cluster.namespace(None) == "shop"
    assert files.namespace(None) == "default"
    assert cluster.namespace("billing") == files.namespace("billing") == "billing"


async def test_files_are_read_and_no_kubeconfig(files: ClusterSource) -> None:
    client = files.client()
    assert [each.metadata.name for each in (await client.list_all(PODS)).items] == ["a"]
    assert client.server == str(files.objects[0])
    await client.close()


async def test_a_cluster_is_asked_where_no_file_is_named(cluster: ClusterSource) -> None:
    client = cluster.client()
    assert client.server == "http://127.0.0.1:9"
    await client.close()


def test_a_kubeconfig_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    where = ClusterSource(tmp_path / "absent")
    with pytest.raises(BadConnection, match="absent"):
        where.client()
    with pytest.raises(BadConnection, match="absent"):
        where.listed_namespace(None, of_all=False)
    assert where.listed_namespace(None, of_all=True) is None, "nothing has to be known of it"

from __future__ import annotations

import pytest

from situate.cli.input.object_names import (
    DEPLOYMENT,
    POD,
    ObjectName,
    ObjectType,
    possible_names,
    require_explained_type,
)
from situate.cli.terminal.failures import WrongInput

REPORT = ObjectType("Report", "reports", "batch.example.com")


@pytest.mark.finding("N14")
@pytest.mark.parametrize(
    ("text", "namespace", "want"),
    [
        pytest.param("web", None, [(None, "", "web")], id="a name"),
        pytest.param("web", "shop", [(None, "shop", "web")], id="a name with -n"),
        pytest.param("shop/web", None, [(None, "shop", "web")], id="a namespace"),
        pytest.param("shop/web", "shop", [(None, "shop", "web")], id="the same namespace twice"),
        pytest.param("pod/web", "shop", [(POD, "shop", "web")], id="a type with -n"),
        pytest.param("pod/web", None, [(None, "pod", "web"), (POD, "", "web")], id="a namespace may be called so"),
        pytest.param("pod/web", "pod", [(None, "pod", "web"), (POD, "pod", "web")], id="and -n may name it"),
        pytest.param("pod/shop/web", None, [(POD, "shop", "web")], id="all three"),
        pytest.param("Pods/web", "shop", [(POD, "shop", "web")], id="the plural, in capitals"),
        pytest.param("po/web", "shop", [(POD, "shop", "web")], id="a short name"),
        pytest.param("deployments.apps/web", "shop", [(DEPLOYMENT, "shop", "web")], id="with a group"),
        pytest.param("deployment.v1.apps/web", "shop", [(DEPLOYMENT, "shop", "web")], id="with version and group"),
    ],
)
def test_an_argument_may_mean(text: str, namespace: str | None, want: list[tuple[ObjectType | None, str, str]]) -> None:
    found = possible_names(text, namespace, (POD, DEPLOYMENT))
    assert found == tuple(ObjectName(*each) for each in want)


@pytest.mark.finding("N14")
@pytest.mark.parametrize(
    ("text", "namespace", "said"),
    [
        pytest.param(
            "deployment/web", "shop", 'found type "deployment", allowed: report; name the object as', id="a type"
        ),
        pytest.param("pods.example.com/web", "shop", "names another namespace", id="a type of another group"),
        pytest.param("a/shop/web", None, 'found type "a", allowed: report', id="an unknown type"),
        pytest.param("mart/web", "shop", "-n shop names another namespace; leave one of them out, or", id="no type"),
        pytest.param("report/mart/web", "shop", "-n shop names another namespace", id="two namespaces"),
        pytest.param("a/b/c/d", None, "such as report/NAME", id="too many parts"),
        pytest.param("shop/", None, "name the object as NAMESPACE/NAME, or as NAME or TYPE/NAME with -n", id="no name"),
        pytest.param("", None, '"": name the object as', id="nothing"),
    ],
)
def test_an_argument_that_means_nothing_is_a_sentence(text: str, namespace: str | None, said: str) -> None:
    with pytest.raises(WrongInput, match=r"^[^\n]*$") as raised:
        possible_names(text, namespace, (REPORT,))
    assert said in str(raised.value)


@pytest.mark.finding("N14")
def test_a_type_that_is_not_explained_is_named_when_there_is_no_such_namespace() -> None:
    require_explained_type("reports/web", (REPORT,))
    require_explained_type("shop/web", (REPORT,))
    with pytest.raises(WrongInput, match='found type "sts", allowed: report'):
        require_explained_type("sts/web", (REPORT,))

"""Files of Kubernetes objects, as `--objects` and `what-if FILE` read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
OPTIONS = {
    "": ["scheduler", "what-if", f"--objects={EXAMPLES / 'scheduler' / 'cluster.yaml'}"],
    "--objects": ["vpod", "status", "-f", str(EXAMPLES / "knative" / "situate.yaml"), "--objects"],
}


@pytest.fixture
def complaint(tmp_path: Path) -> Callable[[str, str], str]:
    """What is said of a file with this content, which an option names; nothing else is printed."""

    def read(option: str, content: str) -> str:
        file = tmp_path / "cluster.yaml"
        file.write_text(content, encoding="utf-8")
        ended = CliRunner().invoke(app, [*OPTIONS[option], str(file)])
        assert (ended.exit_code, ended.stdout) == (2, "")
        return ended.stderr.removeprefix("situate: ").replace(str(file), "FILE")

    return read


@pytest.mark.finding("N17")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    ("content", "where"),
    [
        pytest.param(NODE + "---\napiVersion: apps/v1\n", "document 2, line 5: kind: missing", id="a document"),
        pytest.param("---\n---\nkind: Node\n", "document 2, line 3: apiVersion: missing", id="after an empty one"),
        pytest.param("apiVersion: v1\nkind:\n", "line 1: kind: found null", id="a value"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n- apiVersion: v1\n",
            "line 6, items[1]: kind: missing",
            id="an item",
        ),
        pytest.param(
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n", "line 1: kind: missing", id="as kubectl writes"
        ),
        pytest.param(json.dumps({"kind": "Pod"}), "apiVersion: missing", id="JSON, which has no lines"),
    ],
)
def test_a_file_that_was_cut_off_is_named_with_document_and_line(
    option: str, content: str, where: str, complaint: Callable[[str, str], str]
) -> None:
    said = complaint(option, content)
    assert said.startswith(f"{option} FILE: {where}".lstrip())
    assert said.endswith("; add the line, or write the file again if it was cut off\n")
    assert len(said.splitlines()) == 1


@pytest.mark.finding("N17")
@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_that_ends_within_a_key_is_named_with_document_and_line(
    option: str, complaint: Callable[[str, str], str]
) -> None:
    said = complaint(option, NODE + "---\napiVersion: v1\nki")
    assert said.startswith(f"{option} FILE: document 2, line 6: found while scanning a simple key".lstrip())
    assert said.endswith(
        "; the text ends too early: close the open bracket or quote, or restore the part that was cut off\n"
    )


@pytest.mark.finding("N17")
def test_objects_that_what_if_does_not_use_are_named_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    older = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: web}\n"
    file.write_text(NODE + "---\napiVersion: apps/v1\nkind: Depl\n---\n" + older, encoding="utf-8")
    ended = CliRunner().invoke(app, [*OPTIONS[""], str(file), "--pending"])
    assert ended.stderr.splitlines()[:2] == [
        f"situate: ignored: Depl ({file}: document 2, line 5)",
        f"situate: ignored: Deployment of extensions/v1beta1 web ({file}: document 3, line 8)",
    ]

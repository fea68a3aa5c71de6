"""The page on one product alone: its configurations install what it says, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "getting-started" / "install.md").read_text(encoding="utf-8")
CONFIGURATIONS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.finding("N18")
@pytest.mark.parametrize("text", CONFIGURATIONS, ids=["scheduler", "vpod"])
def test_one_product_installs_the_objects_that_the_page_names(text: str, tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(text, encoding="utf-8")
    printed = CliRunner().invoke(app, ["manifests", "-f", str(file)]).stdout
    objects = list(yaml.safe_load_all(printed))
    section = PAGE.partition("## Installed objects")[2].partition("\n\n## ")[0].partition("There is no")[0]
    named = set(re.findall(r"\b[A-Z]\w*[a-z][A-Z]?\w*", section.partition(":")[2]))
    assert {each["kind"] for each in objects} == {re.sub(r"^(Role|RoleBinding)s$", r"\1", each) for each in named}
    assert {each["metadata"]["name"] for each in objects} <= {"situate", "situate:situate"}
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "situate:0.1.0"


@pytest.mark.finding("N18")
def test_the_readme_leads_to_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [
        line for line in readme.splitlines() if line.startswith("| [") and "(docs/getting-started/install.md#" in line
    ]
    assert len(rows) == 2
    assert len(readme.splitlines()) <= 120


@pytest.mark.finding("N18")
def test_no_page_installs_situate_from_an_index_that_does_not_have_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")]
    pages += (ROOT / "src" / "situate" / "cli" / "sharding" / "project").rglob("*.template")
    for page in (each for each in pages if each.is_file() and "__pycache__" not in each.parts):
        text = page.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"pip install [^`\n]*(?<![/\w])situate(?![\w/\[])", text), page

"""The documentation builds as a site without a warning, and its pages load nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Loaded(HTMLParser):
    """The addresses that a browser loads for a page: scripts, styles, pictures and frames, but no links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev"):
            return
        address = given.get("href") if tag == "link" else given.get("src")
        if address and tag != "a":
            self.found.append(address)


@pytest.mark.xdist_group("site")
def test_every_page_of_the_navigation_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {path for path in pages if not (site / path).is_file()} == set()
    for written in ("reference/cli.html", "project/changelog.html", "decisions/index.html"):
        assert (site / written).is_file()


@pytest.mark.xdist_group("site")
def test_pages_load_nothing_from_another_host(site: Path) -> None:
    foreign = {
        (str(page.relative_to(site)), address)
        for page in site.rglob("*.html")
        for address in Loaded(page.read_text(encoding="utf-8")).found
        if re.match(r"[a-z]+:|//", address) and not address.startswith("data:")
    }
    assert foreign == set()
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"@import|url\([\"']?(?:https?:)?//[^)]*", styles)


@pytest.mark.xdist_group("site")
def test_the_cli_reference_lists_every_command(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for command in ("situate vpod explain", "situate sharding partitions split", "situate run"):
        assert f">{command}<" in page

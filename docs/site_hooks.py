"""Pages of the site that are written from something else: the CLI reference, the changelog, and the list of decisions.

MkDocs calls `on_config` and `on_files` (`hooks` in mkdocs.yml). The pages exist in the site only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from situate.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = "Decisions"
_HEAD = "| option | meaning | default |\n| --- | --- | --- |\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the decision records to the navigation, in the order of their numbers."""
    assert config.nav is not None
    pages = [{"All decisions": "decisions/index.md"}]
    pages += [{title: f"decisions/{path.name}"} for path, title in _decisions()]
    config.nav = [*config.nav, {DECISIONS: pages}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are written here."""
    pages = {
        "reference/cli.md": cli_reference(),
        "project/changelog.md": changelog(),
        "decisions/index.md": decision_index(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def changelog() -> str:
    """Return CHANGELOG.md with its links as seen from `project/`."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](../")


def decision_index() -> str:
    """Return a page with a link to each decision record."""
    lines = [f"- [{title}]({path.name})" for path, title in _decisions()]
    about = "Each record states a decision, its reason, the rejected ways, and the evidence that would change it."
    return "\n".join(["# Decision records", "", about, "", *lines, ""])


def cli_reference() -> str:
    """Return the help of every command as one page."""
    command = typer.main.get_command(app)
    parts = [
        "# CLI",
        "",
        "Every command prints the same text with `--help`. Exit codes: 0 success; 1 negative answer or failure;",
        "2 wrong command line or configuration; `situate --help` lists the other codes.",
    ]
    for path, each in _commands(command, "situate"):
        parts += ["", f"{'##' if path.count(' ') < 2 else '###'} {path}", "", *_command_page(path, each)]
    return "\n".join(parts) + "\n"


def _decisions() -> list[tuple[Path, str]]:
    found = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        found.append((path, title))
    return found


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield f"{path} {name}", child
            yield from _commands(child, f"{path} {name}")


def _command_page(path: str, command: Any) -> Iterator[str]:
    yield from _prose(command.help or "")
    if not hasattr(command, "commands"):
        context = click.Context(command, info_name=path)
        usage = " ".join(command.collect_usage_pieces(context))
        yield from ("", "```console", f"$ {path} {usage}", "```")
        rows = [row for parameter in command.params if (row := _row(parameter, context))]
        yield from ("", _HEAD + "\n".join(rows))
    yield from _prose(command.epilog or "")


def _prose(text: str) -> Iterator[str]:
    """Yield help as Markdown: examples as code, lines that click keeps apart as a list, and the page as a link."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        if not lines or lines == ["Examples:"]:
            continue
        yield ""
        if page := re.fullmatch(r"Page: docs/(\S+)", " ".join(lines)):
            yield f"More: [{page[1]}](../{page[1]})."
        elif all(line.startswith(("situate ", "export ", "Examples:")) for line in lines):
            yield from ("```console", *(f"$ {line}" for line in lines if line != "Examples:"), "```")
        elif "\b" in paragraph:
            yield from (f"- {_cell(line)}" for line in lines)
        elif not lines[0].startswith("Page: "):
            yield from map(_cell, lines)


def _row(parameter: Any, context: click.Context) -> str:
    record = parameter.get_help_record(context)
    if record is None:
        return ""
    flags, meaning = record
    default = ""
    if found := re.search(r"\s*\[(default: )?([^\]]*)\]$", meaning):
        default, meaning = found[2], meaning[: found.start()]
    cells = (f"`{flags}`", _cell(meaning), _cell(default))
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

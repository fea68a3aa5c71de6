"""Every command and option says what it is for, and what help shows as an example works."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from situate import __version__
from situate.cli.main import app
from situate.cli.simulate import spot, vm
from situate.cli.terminal.failures import ExitCode
from situate.cli.terminal.streams import BROKEN_PIPE
from tests.cli.processes import KUBECTL, call

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "knative"


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command and group by its full name; the root's is empty."""
    yield " ".join(path), command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*path, name))


COMMANDS = dict(walk(typer.main.get_command(app)))


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_kubectl_finds_it_as_a_plugin(tmp_path: Path) -> None:
    told = call(tmp_path, str(KUBECTL), "situate", "vpod", "plan", "--help", path=KUBECTL.parent)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("Usage: kubectl-situate vpod plan ")


def test_every_exit_code_is_told() -> None:
    told = printed("-h").partition("Exit codes: ")[2]
    codes = [int(each) for each in re.findall(r"(?:^|; )\s*(\d+) ", told.replace("\n", " "))]
    assert codes == [*ExitCode, BROKEN_PIPE]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_and_each_option_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    without = [parameter.name for parameter in command.params if not getattr(parameter, "help", None)]
    assert not without


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_fits_a_terminal(name: str, flag: str) -> None:
    text = printed(*name.split(), flag)
    assert text.startswith("Usage: ")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "..." not in text.replace("]...", "")  # no command's line is cut off


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_is_meant_and_not_its_type_in_python(name: str) -> None:
    assert not re.findall(r"<(?:str|path|int|float|list)\b[^>]*>", printed(*name.split(), "--help"))


WRITING = (
    *("vm drain", "vm uncordon", "spot ungate", "sharding drain", "sharding uncordon", "sharding init"),
    *(f"sharding partitions {verb}" for verb in ("create", "resize", "split", "merge", "hand-over", "thaw")),
    *(f"sharding archive {verb}" for verb in ("restore", "prune", "migrate")),
)


@pytest.mark.finding("N29")
def test_a_flag_has_one_meaning_and_a_meaning_one_flag() -> None:
    """`--kind` has two forms: a kind of the cluster takes its group, and one that is made here has none yet."""
    long_ones: dict[str, set[str]] = {}
    values: dict[str, set[str | None]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            flags = [flag for flag in option.opts if flag.startswith("-")]
            for short in (flag for flag in flags if not flag.startswith("--")):
                long_ones.setdefault(short, set()).update(flag for flag in flags if flag.startswith("--"))
            for flag in flags:
                values.setdefault(flag, set()).add(option.metavar)
    assert {short: len(found) for short, found in long_ones.items()} == dict.fromkeys(long_ones, 1)
    usual = {"-n": "--namespace", "-A": "--all-namespaces", "-f": "--file", "-o": "--output", "-l": "--selector"}
    assert {short: [*long_ones[short]] for short in usual} == {short: [flag] for short, flag in usual.items()}
    assert {flag for flag, found in values.items() if len(found) > 1} == {"--kind"}


@pytest.mark.finding("N29")
@pytest.mark.parametrize("name", WRITING)
def test_what_writes_can_show_it_first(name: str) -> None:
    assert "--dry-run" in printed(*name.split(), "--help")


@pytest.mark.parametrize(("group", "section"), [("", "Inspect:"), ("vpod", "Commands:")])
def test_a_group_without_a_command_shows_its_help(group: str, section: str) -> None:
    result = CliRunner().invoke(app, group.split())
    assert result.exit_code == 2
    assert section in result.output


@pytest.mark.parametrize("name", [each for each in COMMANDS if each and " " not in each])
def test_help_names_a_page_that_exists(name: str) -> None:
    pages = re.findall(r"Page: (\S+)$", printed(*name.split(), "--help"), re.MULTILINE)
    assert pages
    assert all((ROOT / page).is_file() for page in pages)


def test_simulate_names_every_wave_and_every_load() -> None:
    told = " ".join(printed("simulate", "--help").split()).replace("- ", "-")
    assert [each for each in (*spot.BUILT_IN, *vm.BUILT_IN) if each not in told] == []


HEAVY = ("numpy", "rich", "structlog", "aiohttp", "situate.kube", "situate.cluster", "situate.framework")
PRODUCTS = tuple(f"situate.{name}" for name in ("scheduler", "vpod", "vm", "spot", "sharding", "archive"))
_IMPORTED = """
import contextlib, io, json, sys
from situate.cli.main import app
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        app([*arguments, "--help"])
print(json.dumps(sorted(sys.modules)))
"""


def test_help_imports_nothing_that_only_the_work_needs() -> None:
    """Else any help takes three to ten times as long: a client, arrays or a product."""
    names = json.dumps([name.split() for name in COMMANDS])
    told = subprocess.run([sys.executable, "-c", _IMPORTED, names], capture_output=True, text=True, check=True)
    assert [
        each for each in json.loads(told.stdout) if any((each + ".").startswith(f"{no}.") for no in (*HEAVY, *PRODUCTS))
    ] == []


def test_the_commands_are_listed_by_what_a_person_is_at() -> None:
    sections = re.findall(r"^(\w+):$", printed("--help"), re.MULTILINE)
    assert sections == ["Options", "Try", "Inspect", "Install", "Run"]


def test_a_former_name_of_a_group_still_works_and_is_not_listed() -> None:
    assert printed("shard", "--help") == printed("sharding", "--help").replace("situate sharding ", "situate shard ", 1)
    assert not re.search(r"^  shard ", printed("--help"), re.MULTILINE)


def test_the_version() -> None:
    assert printed("--version") == f"situate {__version__}\n"


def test_the_examples_of_vpod_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^ +situate (vpod .+)$", printed("vpod", "-h"), re.MULTILINE)
    assert {example.split()[1] for example in examples} == {"status", "explain", "plan"}
    shutil.copy(EXAMPLES / "situate.yaml", tmp_path / "situate.yaml")
    shutil.copy(EXAMPLES.with_name("vpod-cluster.yaml"), tmp_path / "cluster.yaml")
    monkeypatch.chdir(tmp_path)
    for example in examples:
        arguments = shlex.split(example)
        if "--objects" not in arguments:
            arguments += ["--objects", "cluster.yaml"]
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == (ExitCode.NO if "plan" in arguments else ExitCode.DONE)
        assert ended.stdout


@pytest.mark.parametrize(
    ("group", "writing"), [("spot", {"ungate"}), ("vm", {"drain", "uncordon"})], ids=["spot", "vm"]
)
def test_the_examples_of_a_group_work(
    group: str, writing: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = re.findall(rf"^ +situate ({group} .+)$", printed(group, "-h"), re.MULTILINE)
    assert {example.split()[1] for example in examples} == {"status", "explain", "plan", *writing}
    shutil.copy(EXAMPLES.with_name(f"{group}-cluster.yaml"), tmp_path / "cluster.yaml")
    monkeypatch.chdir(tmp_path)
    for example in examples:
        arguments = shlex.split(example)
        if arguments[1] in writing:
            continue  # there is no --objects: files are not written to
        if "--objects" not in arguments:
            arguments += ["--objects", "cluster.yaml"]
        result = CliRunner().invoke(app, arguments)
        assert (result.exit_code in (0, 1), bool(result.stdout)) == (True, True), result.output

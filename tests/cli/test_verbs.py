"""Help is there at once: nothing of what the verbs need is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.verbs import ALIASES, VERBS

_LARGE = ("aiohttp", "numpy", "msgspec", "yaml", "prometheus_client", "situate.cluster", "situate.vpod", "situate.kube")


@pytest.mark.parametrize("arguments", [["-h"], ["--version"]])
def test_help_imports_no_verb(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom situate.cli.main import app\n"
        f"app({arguments}, standalone_mode=False)\n"
        f"print([name for name in {_LARGE} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_api_server_needs_no_arrays_and_no_expressions() -> None:
    program = "import sys, situate.cli.embedded\nprint([name for name in ('numpy', 'cel') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_where_it_is_said_to_be(name: str) -> None:
    assert VERBS[name].command(name).name == name


@pytest.mark.parametrize("former", ALIASES)
def test_former_names_still_work_and_are_not_listed(former: str) -> None:
    told, present = (CliRunner().invoke(app, [name, "--help"]) for name in (former, ALIASES[former]))
    assert (told.exit_code, told.stdout.splitlines()[1:]) == (0, present.stdout.splitlines()[1:])
    assert f"  {former} " not in CliRunner().invoke(app, ["--help"]).stdout

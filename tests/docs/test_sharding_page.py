"""docs/sharding.md against the code: options, metrics, and the program that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from situate.archive import ArchiveOptions
from situate.objects.settings_options import options_of
from situate.sharding import ExecutorOptions, SupervisorOptions
from situate.sharding.controller import supervisor_metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sharding.md").read_text(encoding="utf-8")


@pytest.mark.rule("sharding:K15")
@pytest.mark.parametrize("kind", [SupervisorOptions, ExecutorOptions, ArchiveOptions])
def test_every_option_is_in_its_table(kind: type[object]) -> None:
    missing = [option.flag for option in options_of(kind) if f"| `{option.flag}` | `{option.key}` |" not in PAGE]
    assert not missing


def test_no_option_is_in_a_table_that_is_none() -> None:
    known = {
        option.flag for kind in (SupervisorOptions, ExecutorOptions, ArchiveOptions) for option in options_of(kind)
    }
    assert set(re.findall(r"^\| `(--[a-z-]+)` \|", PAGE, re.MULTILINE)) <= known


@pytest.mark.rule("sharding:B11")
def test_the_metrics_are_those_that_are_shown() -> None:
    source = Path(supervisor_metrics.__file__).read_text(encoding="utf-8")
    for name in re.findall(r"`situate_shard_([a-z_]+)`", PAGE):
        assert f'"{name.removesuffix("_total")}"' in source or f'"situate_shard_{name}"' in source, name


def test_the_program_is_python() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    compile(program, "docs/sharding.md", "exec")
    for name in re.search(r"from situate\.sharding import ([^\n]+)", program)[1].split(", "):  # type: ignore[index]  # it is there
        assert name in __import__("situate.sharding", fromlist=["__all__"]).__all__

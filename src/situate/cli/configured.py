"""Reads the configuration file for a command: the sections of every product, the environment, `--set`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from situate.cli.failures import WrongInput
from situate.runtime.configuration import (
    BadConfiguration,
    Configuration,
    Section,
    environment_overrides,
    flag_overrides,
    parse_configuration,
)
from situate.vpod.configuration import ENVIRONMENT, StatefulSetSettings

SECTIONS = (Section("vpod", list[StatefulSetSettings], ENVIRONMENT),)
"""One for each product."""


def load(file: Path, assignments: Iterable[str] = ()) -> Configuration:
    """The configuration of a file; the environment overrides the file, `--set` both.

    Raises `BadConfiguration` with every mistake, `WrongInput` if the file cannot be read.
    """
    from_environment, wrong_environment = environment_overrides(os.environ, SECTIONS)
    from_flags, wrong_flags = flag_overrides(assignments)
    configuration, mistakes = parse_configuration(_text(file), SECTIONS, (*from_environment, *from_flags))
    mistakes = (*wrong_environment, *wrong_flags, *mistakes)
    if mistakes or configuration is None:
        raise BadConfiguration(str(file), mistakes)
    return configuration


def vpod_entries(configuration: Configuration) -> tuple[StatefulSetSettings, ...]:
    """The StatefulSets that vpod looks after; empty if the file does not name the product."""
    return tuple(configuration.section("vpod", list) or ())


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WrongInput(
            f"{file}: no such file; -f names the configuration, see examples/knative/situate.yaml"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"{file}: cannot be read: {problem}") from None

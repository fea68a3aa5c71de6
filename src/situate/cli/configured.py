"""Reads the configuration file for a command: the sections of every product, the environment, `--set`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from situate.cli.failures import WrongInput
from situate.objects.settings import Mistake
from situate.runtime.configuration import (
    Configuration,
    Section,
    environment_overrides,
    flag_overrides,
    parse_configuration,
)
from situate.runtime.reload import ConfigurationFile
from situate.scheduler.configuration import SchedulerSettings
from situate.vpod.configuration import ENVIRONMENT, StatefulSetSettings

SECTIONS = (Section("vpod", list[StatefulSetSettings], ENVIRONMENT), Section("scheduler", SchedulerSettings))
"""One for each product."""


def configuration_file(file: Path, assignments: Iterable[str] = ()) -> ConfigurationFile:
    """A file whose content is overridden by the environment, and that by `--set`. Raises `WrongInput` without one."""
    if not file.exists():
        raise WrongInput(f"{file}: no such file; -f names the configuration, see examples/knative/situate.yaml")
    if file.is_dir():
        raise WrongInput(f"{file}: a folder; -f names the file with the configuration")
    from_environment, wrong_environment = environment_overrides(os.environ, SECTIONS)
    from_flags, wrong_flags = flag_overrides(assignments)

    def parse(text: str) -> tuple[Configuration | None, tuple[Mistake, ...]]:
        configuration, mistakes = parse_configuration(text, SECTIONS, (*from_environment, *from_flags))
        if configuration is not None:
            mistakes = (*_named_twice(vpod_entries(configuration)), *_wrong_profiles(configuration, file.parent))
        mistakes = (*wrong_environment, *wrong_flags, *mistakes)
        return None if mistakes else configuration, mistakes

    return ConfigurationFile(file, parse)


def _named_twice(entries: Iterable[StatefulSetSettings]) -> Iterator[Mistake]:
    """One writer a StatefulSet: two entries for one would undo each other's work."""
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        name = f"{entry.stateful_set_namespace}/{entry.stateful_set_name}"
        first = seen.setdefault(name, number)
        if first != number:
            hint = f"vpod[{first}] is about it already; remove one of them"
            yield Mistake(f"vpod[{number}].statefulSetName", name, "each StatefulSet once", hint)


def _wrong_profiles(configuration: Configuration, folder: Path) -> tuple[Mistake, ...]:
    settings = scheduler_settings(configuration)
    if settings is None:
        return ()
    # plugins are arrays' business: what has no scheduler is spared their import
    from situate.cli.scheduling import scheduler_setup

    return scheduler_setup(settings, folder)[1]


def load(file: Path, assignments: Iterable[str] = ()) -> Configuration:
    """The configuration of a file. Raises `BadConfiguration` with every mistake, `WrongInput` without a file."""
    return configuration_file(file, assignments).load()


def vpod_entries(configuration: Configuration) -> tuple[StatefulSetSettings, ...]:
    """The StatefulSets that vpod looks after; empty if the file does not name the product."""
    return tuple(configuration.section("vpod", list) or ())


def scheduler_settings(configuration: Configuration) -> SchedulerSettings | None:
    """None if the file does not name the product."""
    return configuration.section("scheduler", SchedulerSettings)

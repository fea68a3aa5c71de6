"""Read the configuration file for a command: the sections of every product, the environment, `--set`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, TypeVar

from situate.cli.input.file_kinds import AUTOSCALE_SCHEDULER, CONFIGURATION, wrong_kind_of_text
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.section import Mistake
from situate.objects.settings.yaml_text import load_yaml
from situate.runtime.configuration.file import (
    API_VERSION,
    KIND,
    BadConfiguration,
    Configuration,
    Section,
    environment_overrides,
    flag_overrides,
    parse_configuration,
)
from situate.runtime.configuration.reload import ConfigurationFile, NamedFiles, Parse
from situate.scheduler.config.settings import SchedulerSettings
from situate.sharding.supervisor.controller.config.section import ShardSettings, hide_secrets, overlap_mistakes
from situate.spot.config.settings import SpotSettings
from situate.vm.config.neon_settings import read_neon_configuration
from situate.vm.config.settings import VmSettings
from situate.vpod.config.settings import ENVIRONMENT, StatefulSetSettings

if TYPE_CHECKING:
    from situate.scheduler.config.setup import Setup

S = TypeVar("S")
ReadText = Callable[[Path], str]
"""Function that reads a file. Raises `OSError` or `UnicodeDecodeError`."""

SECTIONS = (
    Section("vpod", list[StatefulSetSettings], ENVIRONMENT),
    Section("scheduler", SchedulerSettings),
    Section("spot", SpotSettings),
    Section("sharding", list[ShardSettings]),
    Section("vm", VmSettings),
)
"""Sections of the configuration, one for each product."""


def configuration_file(file: Path, assignments: Iterable[str] = ()) -> ConfigurationFile:
    """Return a configuration file. `--set` overrides the environment, which overrides the file.

    Raises `WrongInput` if the file does not exist.
    """
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise WrongInput(
            f"{file}: no such file; name the configuration with -f, see examples/knative/situate.yaml"
        ) from None
    except OSError as problem:
        raise WrongInput(f"{file}: cannot be read: {problem.strerror}; name the configuration with -f") from None
    if S_ISDIR(mode):
        raise WrongInput(f"{file}: is a folder; name the configuration file with -f")
    named = NamedFiles()
    return ConfigurationFile(file, _parser(file.parent, assignments, named), named)


def configuration_without_file(assignments: Iterable[str]) -> Configuration:
    """Return a configuration from `--set` and the environment alone. Raises `BadConfiguration` with every mistake."""
    return configuration_from_text(f"apiVersion: {API_VERSION}\nkind: {KIND}\n", "the command line", assignments)


def configuration_from_text(text: str, source: str, assignments: Iterable[str] = ()) -> Configuration:
    """Return the configuration in a text that is not a local file. Raises `BadConfiguration` with every mistake."""
    configuration, mistakes = _parser(Path(), assignments)(text)
    if configuration is None:
        raise BadConfiguration(source, mistakes)
    return configuration


def assignments_of(file: Path | None, product: str) -> tuple[str, ...]:
    """Return the `--set` arguments for one product: its section of the file, and the settings that all products share.

    Raises the errors of `load_configuration`. Without a file the product runs with its defaults.
    """
    if file is None:
        return (f"{product}={{}}",)
    load_configuration(file)
    document, _ = load_yaml(file.read_text(encoding="utf-8"))
    others = {"apiVersion", "kind", *(section.name for section in SECTIONS)}
    shared = {key: value for key, value in document.items() if key not in others} if isinstance(document, dict) else {}
    own = document.get(product) if isinstance(document, dict) else None
    given = {**shared, product: own or {}}
    return tuple(f"{key}={json.dumps(value, separators=(',', ':'))}" for key, value in given.items())


def _parser(folder: Path, assignments: Iterable[str], named: NamedFiles | None = None) -> Parse:
    """Return a parser for a configuration's text.

    Names of files are relative to `folder`. `named` reads those files and caches their content.
    """
    read = (named or NamedFiles()).text
    from_environment, wrong_environment = environment_overrides(os.environ, SECTIONS)
    from_flags, wrong_flags = flag_overrides(assignments)

    def parse(text: str) -> tuple[Configuration | None, tuple[Mistake, ...]]:
        configuration, mistakes = parse_configuration(text, SECTIONS, (*from_environment, *from_flags))
        if configuration is not None:
            named_twice = _duplicate_entries(vpod_entries(configuration))
            shared = overlap_mistakes(sharding_entries(configuration))
            configuration, of_the_reference = _apply_neon_settings(configuration, folder, read)
            profiles = _profile_mistakes(configuration, folder, read)
            mistakes = (*named_twice, *shared, *profiles, *of_the_reference)
        if mistakes and (of_another_kind := wrong_kind_of_text(text, CONFIGURATION)) is not None:
            mistakes = (of_another_kind,)
        mistakes = (*wrong_environment, *wrong_flags, *hide_secrets(mistakes))
        return None if mistakes else configuration, mistakes

    return parse


def _duplicate_entries(entries: Iterable[StatefulSetSettings]) -> Iterator[Mistake]:
    """Find StatefulSets with two entries: two writers would undo each other's changes."""
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        name = f"{entry.stateful_set_namespace}/{entry.stateful_set_name}"
        first = seen.setdefault(name, number)
        if first != number:
            hint = f"vpod[{first}] has the same StatefulSet; remove one of the two"
            yield Mistake(f"vpod[{number}].statefulSetName", name, "one entry for each StatefulSet", hint)


def _profile_mistakes(configuration: Configuration, folder: Path, read: ReadText) -> tuple[Mistake, ...]:
    settings = scheduler_settings(configuration)
    if settings is None:
        return ()
    # plugins import numpy: skip this import if there is no scheduler section
    from situate.cli.run.scheduler_setup import scheduler_setup

    setup, mistakes = scheduler_setup(settings, folder, read)
    vm = vm_settings(configuration)
    return mistakes if setup is None or vm is None else tuple(_shared_name_mistakes(setup, vm))


def _shared_name_mistakes(setup: Setup, vm: VmSettings) -> Iterator[Mistake]:
    """Find a scheduler name or Lease that `vm` shares with `scheduler`: both would bind the same Pods."""
    if vm.scheduler_name in setup.names:
        allowed = "a name that no profile of scheduler has; vm is a scheduler of its own"
        yield Mistake("vm.schedulerName", vm.scheduler_name, allowed)
    elif setup.election is not None and setup.election.name == vm.lease_name:
        yield Mistake("vm.leaseName", vm.lease_name, "a Lease other than the scheduler's")


def _apply_neon_settings(
    configuration: Configuration, folder: Path, read_text: ReadText
) -> tuple[Configuration, tuple[Mistake, ...]]:
    """Apply the settings of neondatabase/autoscaling's scheduler from the file that `vm.configuration` names."""
    settings = vm_settings(configuration)
    if settings is None or settings.configuration is None:
        return configuration, ()
    within = f"vm.configuration {settings.configuration}: "
    try:
        text = read_text(folder / settings.configuration)
    except (OSError, UnicodeDecodeError) as problem:
        return configuration, (
            Mistake(within.removesuffix(": "), str(problem), "a readable file, relative to the configuration file"),
        )
    read, mistakes = read_neon_configuration(text, settings)
    if read is None:
        of_another_kind = wrong_kind_of_text(text, AUTOSCALE_SCHEDULER)
        found = mistakes if of_another_kind is None else (of_another_kind,)
        return configuration, tuple(replace(each, path=within + each.path) for each in found)
    return replace(configuration, sections={**configuration.sections, "vm": read}), ()


def product_settings(file: Path | None, assignments: Iterable[str] | None, name: str, kind: type[S]) -> S:
    """Return the section of one product: of the file, or without a file of `--set` alone, else the defaults.

    Raises the errors of `load_configuration`, and `WrongInput` for a file without the section.
    """
    given = assignments or ()
    configuration = configuration_without_file(given) if file is None else load_configuration(file, given)
    settings = configuration.section(name, kind)
    if settings is None and file is not None:
        raise WrongInput(
            f"{file}: no {name} section; add `{name}: {{}}` with the settings that differ from the defaults"
        )
    return settings or kind()


def load_configuration(file: Path, assignments: Iterable[str] = ()) -> Configuration:
    """Load the configuration of a file. Raises `BadConfiguration` with every mistake, `WrongInput` without a file."""
    return configuration_file(file, assignments).load()


def require_product(configuration: Configuration, file: Path | None) -> None:
    """Raise `WrongInput` for a configuration without a product. `file` is None if there is only `--set`."""
    entries = (*vpod_entries(configuration), *sharding_entries(configuration))
    alone = (scheduler_settings(configuration), spot_settings(configuration), vm_settings(configuration))
    if not entries and all(each is None for each in alone):
        place = "the command line" if file is None else str(file)
        sections = ", ".join(section.name for section in SECTIONS)
        raise WrongInput(f"{place}: no section to run; add one of {sections} with -f or --set")


def vpod_entries(configuration: Configuration) -> tuple[StatefulSetSettings, ...]:
    """Return the StatefulSets that vpod manages; empty if the file has no vpod section."""
    return tuple(configuration.section("vpod", list) or ())


def sharding_entries(configuration: Configuration) -> tuple[ShardSettings, ...]:
    """Return the supervisors; empty if the file has no sharding section."""
    return tuple(configuration.section("sharding", list) or ())


def scheduler_settings(configuration: Configuration) -> SchedulerSettings | None:
    """Return the scheduler section; None if the file has none."""
    return configuration.section("scheduler", SchedulerSettings)


def spot_settings(configuration: Configuration) -> SpotSettings | None:
    """Return the spot section; None if the file has none."""
    return configuration.section("spot", SpotSettings)


def vm_settings(configuration: Configuration) -> VmSettings | None:
    """Return the vm section; None if the file has none."""
    return configuration.section("vm", VmSettings)

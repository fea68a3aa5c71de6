"""Build a scheduler's setup from the `scheduler:` section: the file that it names, and third-party plugins."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from situate.cli.input.configuration import ReadText
from situate.cli.input.file_kinds import KUBE_SCHEDULER, wrong_kind_of_text
from situate.cli.terminal.failures import WrongInput
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.objects.settings.section import Mistake
from situate.plugins.registry import GROUP, registry
from situate.scheduler.config.settings import SchedulerSettings
from situate.scheduler.config.setup import Setup, effective_section, kube_configuration, set_up


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def scheduler_setup(
    settings: SchedulerSettings, folder: Path, read: ReadText = read_text
) -> tuple[Setup | None, tuple[Mistake, ...]]:
    """Return the setup, or None and every mistake. The name of a file is relative to `folder`.

    A third-party plugin that cannot be loaded is a mistake even if no profile names it: its installation was intended.
    """
    loaded: KubeSchedulerConfiguration | None = None
    if settings.configuration is not None:
        loaded, mistakes = _load_kube_configuration(folder / settings.configuration, read)
        if loaded is None:
            return None, _prefix_mistakes(f"scheduler.configuration {settings.configuration}: ", mistakes)
    plugins, mistakes = registry(entry_points(group=GROUP))
    if mistakes:
        return None, mistakes
    setup, mistakes = set_up(settings, loaded, plugins)
    within = "scheduler." if loaded is None else f"scheduler.configuration {settings.configuration}: "
    return setup, _prefix_mistakes(within, mistakes)


def effective_scheduler_section(
    settings: SchedulerSettings, folder: Path, read: ReadText = read_text
) -> dict[str, Any]:
    """Return the section with the values that a scheduler would use. The section must have no mistakes."""
    loaded = (
        None if settings.configuration is None else _load_kube_configuration(folder / settings.configuration, read)[0]
    )
    plugins, _ = registry(entry_points(group=GROUP))
    return effective_section(settings, loaded, plugins)


def require_setup(settings: SchedulerSettings, file: Path) -> Setup:
    """Return the setup of a valid configuration. Raises `WrongInput` if it has become invalid since it was read."""
    setup, mistakes = scheduler_setup(settings, file.parent)
    if setup is None:
        raise WrongInput("\n".join(f"{file}: {each}" for each in mistakes))
    return setup


def _load_kube_configuration(
    path: Path, read: ReadText
) -> tuple[KubeSchedulerConfiguration | None, tuple[Mistake, ...]]:
    try:
        text = read(path)
    except (OSError, UnicodeDecodeError) as problem:
        return None, (Mistake("", str(problem), "a readable file, relative to the configuration file"),)
    loaded, mistakes = kube_configuration(text)
    if loaded is None and (of_another_kind := wrong_kind_of_text(text, KUBE_SCHEDULER)) is not None:
        return None, (of_another_kind,)
    return loaded, mistakes


def _prefix_mistakes(path: str, mistakes: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    return tuple(Mistake(path + each.path, each.found, each.allowed, each.hint) for each in mistakes)

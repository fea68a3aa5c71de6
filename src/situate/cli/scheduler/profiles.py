"""Profiles for a command: those of a file, or kube-scheduler's plugins for any schedulerName."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path

from situate.cli.input.configuration import load_configuration, scheduler_settings
from situate.cli.input.file_kinds import CONFIGURATION, KUBE_SCHEDULER, wrong_kind_of_text
from situate.cli.run.scheduler_setup import require_setup
from situate.cli.terminal.failures import WrongInput
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import (
    API_VERSION,
    KIND,
    Extender,
    KubeSchedulerConfiguration,
    SchedulerProfile,
)
from situate.framework.preemption.extenders import read_only_extenders
from situate.framework.profile.profile import ALL_NODES, Profile
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.objects.settings.yaml_text import load_yaml
from situate.plugins.registry import GROUP, registry
from situate.runtime.configuration.file import BadConfiguration
from situate.scheduler.config.settings import SchedulerSettings
from situate.scheduler.config.setup import Setup, kube_configuration, set_up


@dataclass(frozen=True, slots=True)
class Profiles:
    """Profiles, queue settings and extenders, with remarks to print."""

    source: str
    """File of the profiles; empty for the defaults."""
    profiles: tuple[Profile, ...]
    queue: QueueSettings
    extenders: tuple[Extender, ...] = ()
    """Extenders to call for nodes, scores and victims only; see `read_only_extenders`."""
    remarks: tuple[str, ...] = ()

    def has_profile_for(self, name: str) -> bool:
        """Return whether there is a profile for Pods of this scheduler: its own, or the only one."""
        return len(self.profiles) == 1 or any(profile.scheduler_name == name for profile in self.profiles)

    def for_names(self, names: Iterable[str]) -> Profiles:
        """Return profiles for every one of these scheduler names.

        A single profile is used for all names. Raises `WrongInput` if there are several and one name is missing.
        """
        known = {profile.scheduler_name for profile in self.profiles}
        missing = sorted({name for name in names if name not in known})
        if not missing:
            return self
        if len(self.profiles) > 1:
            raise WrongInput(
                f"-f {self.source}: no profile for Pods of scheduler {', '.join(missing)}, found: "
                f"{', '.join(sorted(known))}; add one, or leave a single profile, which then counts for all Pods"
            )
        (only,) = self.profiles
        more = tuple(replace(only, scheduler_name=name) for name in missing)
        said = f"Pods of scheduler {', '.join(missing)} are evaluated under profile {only.scheduler_name}"
        return replace(self, profiles=(only, *more), remarks=(*self.remarks, said) if self.source else self.remarks)

    def engine(self) -> Engine:
        """Return an engine that calls no extenders."""
        return Engine(self.profiles, self.queue)

    def extended_engine(self) -> Engine:
        """Return an engine with extenders, whose questions to them the caller must answer."""
        return Engine(self.profiles, self.queue, extenders=self.extenders)

    def without_extenders(self) -> Profiles:
        """Return the same profiles without extenders, with a remark if there are some."""
        said = ("extenders are not called; the answer is the decision of the plugins alone",) if self.extenders else ()
        return replace(self, extenders=(), remarks=(*self.remarks, *said))


def read_profiles(file: Path | None) -> Profiles:
    """Read a file. Raises `BadConfiguration` with every mistake, `WrongInput` for a file of another kind."""
    if file is None:
        plain = KubeSchedulerConfiguration(percentage_of_nodes_to_score=ALL_NODES, profiles=(SchedulerProfile(),))
        return _profiles_of_setup("", _make_setup(plain, ""))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongInput(f"-f {file}: cannot be read: {problem}") from None
    data, mistakes = load_yaml(text)
    of_another_kind = wrong_kind_of_text(text, KUBE_SCHEDULER, CONFIGURATION)
    if of_another_kind is not None:
        raise BadConfiguration(f"-f {file}", (of_another_kind,))
    if mistakes:
        raise BadConfiguration(str(file), mistakes)
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "Situate":
        settings = scheduler_settings(load_configuration(file))
        if settings is None:
            raise WrongInput(f"-f {file}: no scheduler section; add `scheduler: {{}}` with its profiles")
        return _profiles_of_setup(str(file), require_setup(settings, file))
    if kind != KIND:
        allowed = f"{KIND} ({API_VERSION}), or Situate with a scheduler section"
        raise WrongInput(f"-f {file}: kind: found {kind or 'none'}, allowed: {allowed}")
    loaded, mistakes = kube_configuration(text)
    if loaded is None:
        raise BadConfiguration(str(file), mistakes)
    return _profiles_of_setup(str(file), _make_setup(loaded, str(file)))


def _make_setup(loaded: KubeSchedulerConfiguration, source: str) -> Setup:
    plugins, mistakes = registry(entry_points(group=GROUP))
    setup = None
    if not mistakes:
        setup, mistakes = set_up(SchedulerSettings(), loaded, plugins)
    if setup is None:
        raise BadConfiguration(source or "the installed plugins", mistakes)
    return setup


def _profiles_of_setup(source: str, setup: Setup) -> Profiles:
    return Profiles(source, setup.profiles, setup.queue, read_only_extenders(setup.extenders))

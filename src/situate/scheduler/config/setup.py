"""Resolves the `scheduler:` section into profiles with their plugins, queue, Lease and rates.

A file of kind KubeSchedulerConfiguration has the same meaning as for kube-scheduler, with its percentage of nodes,
client rate and Lease. The caller reads files and finds external plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from situate.framework.plugin_api.configuration import API_VERSION, KIND, Extender, KubeSchedulerConfiguration
from situate.framework.profile.profile import Profile
from situate.framework.profile.profiles import Registry, complete_configuration, profiles_of
from situate.framework.queue.backoff import Backoff
from situate.framework.queue.scheduling_queue import QueueSettings
from situate.kube.election.lease_record import ElectionTimes, LeaseName
from situate.objects.settings.schema import to_plain_data
from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.objects.settings.yaml_text import load_yaml
from situate.scheduler.config.settings import ClientRate, SchedulerSettings


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease of the scheduler's election; namespace None is the process's own."""

    name: str
    namespace: str | None = None
    times: ElectionTimes | None = None
    """None: the durations of the whole process."""

    def lease(self, namespace: str) -> LeaseName:
        """Return the name of the Lease; `namespace` is the process's own."""
        return LeaseName(self.namespace or namespace, self.name)


@dataclass(frozen=True, slots=True)
class Setup:
    """The complete configuration of a scheduler, without mistakes."""

    profiles: tuple[Profile, ...]
    queue: QueueSettings
    extenders: tuple[Extender, ...]
    election: Election | None
    """None: it leads without an election."""
    rate: ClientRate
    calls_in_flight: int
    shadow: bool
    shadow_events: bool

    @property
    def allots_devices(self) -> bool:
        """Whether a profile assigns units of a node, such as devices, to pods and annotates the pods with them."""
        return any(profile.allot for profile in self.profiles)

    @property
    def names(self) -> tuple[str, ...]:
        """The schedulerNames that it serves."""
        return tuple(profile.scheduler_name for profile in self.profiles)


def kube_configuration(text: str) -> tuple[KubeSchedulerConfiguration | None, tuple[Mistake, ...]]:
    """Parse a file of kind KubeSchedulerConfiguration; return it, or every mistake in it."""
    data, mistakes = load_yaml(text)
    if mistakes:
        return None, mistakes
    if not isinstance(data, Mapping):
        return None, (Mistake("", format_value(data), f"a mapping with apiVersion: {API_VERSION} and kind: {KIND}"),)
    missing = [
        Mistake(key, "", wanted) for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)) if key not in data
    ]
    found, mistakes = parse_section(data, KubeSchedulerConfiguration)
    return (None, (*missing, *mistakes)) if missing or mistakes else (found, ())


def set_up(
    settings: SchedulerSettings, loaded: KubeSchedulerConfiguration | None, registry: Registry
) -> tuple[Setup | None, tuple[Mistake, ...]]:
    """Resolve the settings; `loaded` is the file that `configuration` names.

    Paths of mistakes are relative to the section, or to that file.
    """
    kube = loaded or settings.kube()
    profiles, mistakes = profiles_of(kube, registry)
    if mistakes:
        return None, mistakes
    queue = QueueSettings(Backoff(float(kube.pod_initial_backoff_seconds), float(kube.pod_max_backoff_seconds)))
    return Setup(
        profiles=profiles,
        queue=queue,
        extenders=kube.extenders,
        election=Election(settings.lease_name) if loaded is None else _election_of(loaded),
        rate=settings.client if loaded is None else _client_rate(loaded),
        calls_in_flight=settings.calls_in_flight,
        shadow=settings.shadow,
        shadow_events=settings.shadow_events,
    ), ()


def effective_section(
    settings: SchedulerSettings, loaded: KubeSchedulerConfiguration | None, registry: Registry
) -> dict[str, Any]:
    """Return the section as plain data with the effective values, from the section or the file.

    `leaderElection` is added if `loaded` contains it, because the section has no such key.
    """
    kube: dict[str, Any] = to_plain_data(complete_configuration(loaded or settings.kube(), registry))
    section: dict[str, Any] = to_plain_data(settings)
    section |= {key: value for key, value in kube.items() if key in section and key != "configuration"}
    if loaded is not None:
        election = _election_of(loaded)
        section["leaseName"] = None if election is None else election.name
        section["client"] = to_plain_data(_client_rate(loaded))
        section["leaderElection"] = kube["leaderElection"]
    return section


def _election_of(loaded: KubeSchedulerConfiguration) -> Election | None:
    chosen = loaded.leader_election
    if not chosen.leader_elect:
        return None
    times = ElectionTimes(chosen.lease_duration, chosen.renew_deadline, chosen.retry_period)
    return Election(chosen.resource_name, chosen.resource_namespace, times)


def _client_rate(loaded: KubeSchedulerConfiguration) -> ClientRate:
    """Return the client's rate as client-go reads it: 0 is its own default of 5 a second and 10 at once."""
    return ClientRate(loaded.client_connection.qps or 5.0, loaded.client_connection.burst or 10)

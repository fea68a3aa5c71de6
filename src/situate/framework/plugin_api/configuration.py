"""`KubeSchedulerConfiguration` v1, as kube-scheduler reads it (upstream staging/src/k8s.io/kube-scheduler/config/v1).

A file that kube-scheduler accepts loads unchanged. An unknown field is an error with its path and is never ignored.
`situate.framework.profile.profiles` builds profiles from it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

import msgspec

from situate.objects.settings.section import Duration, Mistake, PositiveDuration

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER: Final = "default-scheduler"
EVERY: Final = "*"
"""Among the disabled plugins: all defaults."""

Name = Annotated[str, msgspec.Meta(min_length=1)]
Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]


class EnabledPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin at an extension point."""

    name: Name
    weight: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    """Weight of its scores; None means the weight of the default profile, else 1."""


class DisabledPlugin(msgspec.Struct, frozen=True, rename="camel"):
    name: Name
    """`*` means every default plugin of the point."""
    weight: int | None = None
    """Accepted as upstream accepts it; without effect."""


class PluginSet(msgspec.Struct, frozen=True, rename="camel"):
    """The changes of a profile at one extension point."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[DisabledPlugin, ...] = ()

    def mistakes(self) -> Iterable[Mistake]:
        for field in ("enabled", "disabled"):
            seen: set[str] = set()
            for number, plugin in enumerate(getattr(self, field)):
                if plugin.name in seen:
                    yield Mistake(f"{field}[{number}].name", plugin.name, "each plugin once")
                seen.add(plugin.name)


class Plugins(msgspec.Struct, frozen=True, rename="camel"):
    """Changes to the default plugins, by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


class PluginConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin's arguments. The plugin defines their type."""

    name: Name
    args: dict[str, Any] | None = None


class SchedulerProfile(msgspec.Struct, frozen=True, rename="camel"):
    """One scheduler name with its plugins."""

    scheduler_name: Name = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: Percentage | None = None
    """None means the value of the configuration."""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def mistakes(self) -> Iterable[Mistake]:
        seen: set[str] = set()
        for number, config in enumerate(self.plugin_config):
            if config.name in seen:
                yield Mistake(f"pluginConfig[{number}].name", config.name, "each plugin once")
            seen.add(config.name)


class ClientConnection(msgspec.Struct, frozen=True, rename="camel"):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Annotated[float, msgspec.Meta(ge=0)] = 50.0
    burst: Annotated[int, msgspec.Meta(ge=0)] = 100


class LeaderElection(msgspec.Struct, frozen=True, rename="camel"):
    leader_elect: bool = True
    lease_duration: PositiveDuration = 15.0
    renew_deadline: PositiveDuration = 10.0
    retry_period: PositiveDuration = 2.0
    resource_lock: Literal["leases"] = "leases"
    resource_name: Name = "kube-scheduler"
    resource_namespace: Name = "kube-system"


class ExtenderTLS(msgspec.Struct, frozen=True, rename="camel"):
    """TLS settings of the connection to an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""

    def mistakes(self) -> Iterable[Mistake]:
        for field in ("certData", "keyData", "caData"):
            if not _is_base64(getattr(self, field.replace("Data", "_data"))):
                yield Mistake(field, "text that is not base64", "PEM in base64")
        if self.insecure and (self.ca_file or self.ca_data):
            yield Mistake("insecure", "true", "false if a CA is set, because the client would ignore it")
        certificate, key = self.cert_data or self.cert_file, self.key_data or self.key_file
        if bool(certificate) != bool(key):
            there, missing = ("certificate", "key") if certificate else ("key", "certificate")
            yield Mistake("keyFile" if certificate else "certFile", "", f"the {missing} of the {there}")


class ManagedResource(msgspec.Struct, frozen=True, rename="camel"):
    """An extended resource that an extender manages."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[^/\s]+/[^/\s]+$")]
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, frozen=True, rename="camel"):
    """A program that the scheduler calls over HTTP about nodes, scores, victims and bindings."""

    url_prefix: Annotated[str, msgspec.Meta(pattern=r"^https?://")]
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Annotated[int, msgspec.Meta(ge=0)] = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: Duration = msgspec.field(default=5.0, name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False
    """Whether scheduling continues without the extender if it does not answer."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.prioritize_verb and not self.weight:
            yield Mistake("weight", "0", "1 or more, with prioritizeVerb")
        for number, resource in enumerate(self.managed_resources):
            if resource.name.startswith("requests.") or "kubernetes.io/" in resource.name:
                allowed = "an extended resource such as example.com/thing, not a resource of Kubernetes"
                yield Mistake(f"managedResources[{number}].name", resource.name, allowed)


class KubeSchedulerConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """The configuration file."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = API_VERSION
    kind: Literal["KubeSchedulerConfiguration"] = KIND
    parallelism: Annotated[int, msgspec.Meta(ge=1)] = 16
    """Accepted. Plugins answer for all nodes at once, so there is no work to spread over threads."""
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    delay_cache_until_active: bool = False
    percentage_of_nodes_to_score: Percentage = 0
    """0 means adaptive, as upstream."""
    pod_initial_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 1
    pod_max_backoff_seconds: Annotated[int, msgspec.Meta(ge=1)] = 10
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    extenders: tuple[Extender, ...] = ()

    def mistakes(self) -> Iterable[Mistake]:
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            allowed = f"at least podInitialBackoffSeconds ({self.pod_initial_backoff_seconds})"
            yield Mistake("podMaxBackoffSeconds", str(self.pod_max_backoff_seconds), allowed)
        if not self.profiles:
            yield Mistake("profiles", "[]", "at least one profile")
        seen: set[str] = set()
        for number, profile in enumerate(self.profiles):
            if profile.scheduler_name in seen:
                yield Mistake(f"profiles[{number}].schedulerName", profile.scheduler_name, "each name once")
            seen.add(profile.scheduler_name)
        managed: set[str] = set()
        for number, extender in enumerate(self.extenders):
            for place, resource in enumerate(extender.managed_resources):
                if resource.name in managed:
                    path = f"extenders[{number}].managedResources[{place}].name"
                    yield Mistake(path, resource.name, "each resource once, because one extender manages it")
                managed.add(resource.name)
        binders = [number for number, extender in enumerate(self.extenders) if extender.bind_verb]
        if len(binders) > 1:
            yield Mistake(
                f"extenders[{binders[1]}].bindVerb",
                self.extenders[binders[1]].bind_verb,
                "bindVerb in only one extender",
            )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True

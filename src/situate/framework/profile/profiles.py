"""Build profiles from configuration: the defaults, each profile's changes to them, and the plugins' arguments.

Upstream: pkg/scheduler/apis/config/v1 default_plugins.go merges with the defaults, pkg/scheduler/framework/runtime
framework.go expands multiPoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from situate.framework.plugin_api import plugin as points
from situate.framework.plugin_api.configuration import (
    EVERY,
    EnabledPlugin,
    KubeSchedulerConfiguration,
    PluginConfig,
    PluginSet,
    SchedulerProfile,
)
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.profile.profile import Profile, WeightedPlugin
from situate.objects.settings.schema import to_plain_data
from situate.objects.settings.section import Mistake, default_section, parse_section, spelling_hint

_FIT: Final = "NodeResourcesFit"
"""The plugin whose arguments list the resources that extenders manage."""


class PluginType(Protocol):
    """A plugin class. If it has `arguments`, a msgspec struct with defaults, its constructor takes such a struct."""

    name: str

    def __call__(self, *arguments: Any) -> Plugin: ...


@dataclass(frozen=True, slots=True)
class Registry:
    """The plugins that a configuration may name."""

    types: Mapping[str, Callable[..., Plugin]]
    defaults: tuple[EnabledPlugin, ...]
    """The default profile's multiPoint."""


_POINTS: Final[Mapping[str, type]] = {
    "pre_enqueue": points.PreEnqueuePlugin,
    "queue_sort": points.QueueSortPlugin,
    "pre_filter": points.PreFilterPlugin,
    "filter": points.FilterPlugin,
    "post_filter": points.PostFilterPlugin,
    "pre_score": points.PreScorePlugin,
    "score": points.ScorePlugin,
    "reserve": points.ReservePlugin,
    "permit": points.PermitPlugin,
    "pre_bind": points.PreBindPlugin,
    "bind": points.BindPlugin,
    "post_bind": points.PostBindPlugin,
}


def profiles_of(
    configuration: KubeSchedulerConfiguration, registry: Registry
) -> tuple[tuple[Profile, ...], tuple[Mistake, ...]]:
    """Return the profiles, or no profile and all mistakes."""
    mistakes: list[Mistake] = []
    configuration = _with_ignored_resources(configuration)
    built = [
        _build_profile(profile, configuration, registry, f"profiles[{number}]", mistakes)
        for number, profile in enumerate(configuration.profiles)
    ]
    profiles = tuple(profile for profile in built if profile is not None)
    if not mistakes:
        mistakes += _check_queue_sort(configuration, profiles)
    return ((), tuple(mistakes)) if mistakes else (profiles, ())


def complete_configuration(configuration: KubeSchedulerConfiguration, registry: Registry) -> KubeSchedulerConfiguration:
    """Return the configuration with every default written out, like kube-scheduler's `--write-config-to`.

    The result makes the same profiles. `profiles_of` must find no mistake in the configuration.
    """
    configuration = _with_ignored_resources(configuration)
    profiles = tuple(_complete_profile(profile, configuration, registry) for profile in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=profiles)


def _complete_profile(
    wire: SchedulerProfile, configuration: KubeSchedulerConfiguration, registry: Registry
) -> SchedulerProfile:
    changes = wire.plugins.multi_point
    multi = _merge_plugins(registry.defaults, changes)
    named = {plugin.name for point in _POINTS for plugin in _point(wire, point).enabled}
    configs = {each.name: each for each in wire.plugin_config}
    for name in {plugin.name for plugin in multi} | named:
        kind = getattr(registry.types[name], "arguments", None)
        if kind is not None:
            arguments, _ = _parse_arguments(wire, name, kind, "")
            configs[name] = PluginConfig(name, to_plain_data(arguments))
    percentage = wire.percentage_of_nodes_to_score
    return msgspec.structs.replace(
        wire,
        percentage_of_nodes_to_score=configuration.percentage_of_nodes_to_score if percentage is None else percentage,
        plugins=msgspec.structs.replace(wire.plugins, multi_point=PluginSet(tuple(multi), changes.disabled)),
        plugin_config=tuple(configs[name] for name in sorted(configs)),
    )


def _with_ignored_resources(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Add resources that only their extender evaluates to `ignoredResources` of NodeResourcesFit.

    They replace the configured list (upstream scheduler.go buildExtenders).
    """
    ignored = [
        resource.name
        for extender in configuration.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not ignored:
        return configuration
    profiles = tuple(_set_ignored_resources(profile, ignored) for profile in configuration.profiles)
    return msgspec.structs.replace(configuration, profiles=profiles)


def _set_ignored_resources(profile: SchedulerProfile, ignored: Sequence[str]) -> SchedulerProfile:
    configs = list(profile.plugin_config)
    place = next((number for number, each in enumerate(configs) if each.name == _FIT), None)
    if place is None:
        configs.append(PluginConfig(_FIT, {"ignoredResources": ignored}))
    else:
        configs[place] = PluginConfig(_FIT, (configs[place].args or {}) | {"ignoredResources": ignored})
    return msgspec.structs.replace(profile, plugin_config=tuple(configs))


def _check_queue_sort(configuration: KubeSchedulerConfiguration, profiles: Sequence[Profile]) -> Iterable[Mistake]:
    """Check that all profiles have one QueueSort with the same arguments, because they share one queue."""
    first = profiles[0]
    for number, (profile, wire) in enumerate(zip(profiles, configuration.profiles, strict=True)):
        name = profile.queue_sort.name
        same = name == first.queue_sort.name and _arguments(wire, name) == _arguments(configuration.profiles[0], name)
        if not same:
            allowed = f"{first.queue_sort.name} with the arguments of profiles[0], because all profiles share one queue"
            yield Mistake(f"profiles[{number}].plugins.queueSort", name, allowed)


def _build_profile(
    wire: SchedulerProfile,
    configuration: KubeSchedulerConfiguration,
    registry: Registry,
    path: str,
    mistakes: list[Mistake],
) -> Profile | None:
    before = len(mistakes)
    mistakes += _unknown_plugins(wire, registry, path)
    if len(mistakes) > before:
        return None
    multi = _merge_plugins(registry.defaults, wire.plugins.multi_point)
    named = {plugin.name for point in _POINTS for plugin in _point(wire, point).enabled}
    made = {
        name: _create_plugin(name, wire, registry, path, mistakes)
        for name in dict.fromkeys((*(plugin.name for plugin in multi), *sorted(named)))
    }
    if len(mistakes) > before:
        return None
    plugins = {name: plugin for name, plugin in made.items() if plugin is not None}
    chosen = {point: _expand_point(point, _point(wire, point), multi, plugins, path, mistakes) for point in _POINTS}
    weights = _weights(_point(wire, "score"), multi)
    mistakes += _check_required_points(chosen, path)
    if len(mistakes) > before:
        return None
    percentage = wire.percentage_of_nodes_to_score
    return Profile(
        wire.scheduler_name,
        queue_sort=chosen["queue_sort"][0],
        score=tuple(WeightedPlugin.from_plugin(plugin, weights.get(plugin.name, 1)) for plugin in chosen["score"]),
        enqueue=tuple(plugin for plugin in plugins.values() if points.implements(plugin, points.EnqueuePlugin)),
        allot=tuple(plugin for plugin in plugins.values() if points.implements(plugin, points.AllotPlugin)),
        annotations=tuple(plugin for plugin in plugins.values() if points.implements(plugin, points.AnnotationsPlugin)),
        percentage_of_nodes_to_score=(configuration.percentage_of_nodes_to_score if percentage is None else percentage),
        **{point: tuple(found) for point, found in chosen.items() if point not in ("queue_sort", "score")},
    )


def _point(wire: SchedulerProfile, point: str) -> PluginSet:
    found: PluginSet = getattr(wire.plugins, point)
    return found


def _path(path: str, point: str) -> str:
    head, *rest = point.split("_")
    return f"{path}.plugins.{head}{''.join(word.title() for word in rest)}"


def _unknown_plugins(wire: SchedulerProfile, registry: Registry, path: str) -> Iterable[Mistake]:
    """Yield a mistake for each plugin name that is not registered."""
    for point in ("multi_point", *_POINTS):
        chosen = _point(wire, point)
        for field in ("enabled", "disabled"):
            for number, plugin in enumerate(getattr(chosen, field)):
                if plugin.name not in registry.types and plugin.name != EVERY:
                    yield _unknown_plugin_mistake(f"{_path(path, point)}.{field}[{number}].name", plugin.name, registry)
    for number, config in enumerate(wire.plugin_config):
        if config.name not in registry.types:
            yield _unknown_plugin_mistake(f"{path}.pluginConfig[{number}].name", config.name, registry)


def _unknown_plugin_mistake(path: str, name: str, registry: Registry) -> Mistake:
    known = sorted(registry.types)
    return Mistake(path, name, "one of " + ", ".join(known), spelling_hint(name, known))


def _create_plugin(
    name: str, wire: SchedulerProfile, registry: Registry, path: str, mistakes: list[Mistake]
) -> Plugin | None:
    """Create the plugin with its arguments."""
    make = registry.types[name]
    kind = getattr(make, "arguments", None)
    if kind is None:
        for number, config in enumerate(wire.plugin_config):
            given = _own_arguments(config) if config.name == name else {}
            if given:
                here = f"{path}.pluginConfig[{number}].args"
                mistakes.append(Mistake(here, ", ".join(given), f"no arguments, because {name} takes none"))
        return make()
    arguments, wrong = _parse_arguments(wire, name, kind, path)
    mistakes += wrong
    return None if wrong else make(arguments)


def _parse_arguments(
    wire: SchedulerProfile, name: str, kind: type[Any], path: str
) -> tuple[Any | None, tuple[Mistake, ...]]:
    """Return the arguments of a plugin with all defaults."""
    for number, config in enumerate(wire.plugin_config):
        if config.name == name:
            return parse_section(_own_arguments(config), kind, f"{path}.pluginConfig[{number}].args")
    return default_section(kind, f"{path}.pluginConfig[{name}].args")  # some plugins have required arguments


def _own_arguments(config: PluginConfig) -> dict[str, Any]:
    return {key: value for key, value in (config.args or {}).items() if key not in ("apiVersion", "kind")}


def _arguments(wire: SchedulerProfile, name: str) -> dict[str, Any] | None:
    return next((config.args for config in wire.plugin_config if config.name == name), None)


def _merge_plugins(defaults: Sequence[EnabledPlugin], changes: PluginSet) -> list[EnabledPlugin]:
    """Return the remaining defaults, a default enabled again in its old place, then the new plugins."""
    disabled = {plugin.name for plugin in changes.disabled}
    again = {plugin.name: plugin for plugin in changes.enabled}
    kept: list[EnabledPlugin] = []
    if EVERY not in disabled:
        kept = [again.get(plugin.name, plugin) for plugin in defaults if plugin.name not in disabled]
    replaced = {plugin.name for plugin in kept}
    return kept + [plugin for plugin in changes.enabled if plugin.name not in replaced]


def _expand_point(
    point: str,
    changes: PluginSet,
    multi: Sequence[EnabledPlugin],
    plugins: Mapping[str, Plugin],
    path: str,
    mistakes: list[Mistake],
) -> list[Any]:
    """Return the plugins of a point in call order.

    First come the plugins of multiPoint that the point names itself, then the rest of multiPoint, then the others.
    """
    kind = _POINTS[point]
    own = [plugin.name for plugin in changes.enabled]
    for number, name in enumerate(own):
        if not points.implements(plugins[name], kind):
            able = sorted(each for each, plugin in plugins.items() if points.implements(plugin, kind))
            mistakes.append(Mistake(f"{_path(path, point)}.enabled[{number}].name", name, "one of " + ", ".join(able)))
            return []
    disabled = {plugin.name for plugin in changes.disabled}
    if EVERY in disabled:
        return [plugins[name] for name in own]
    expanded = [
        plugin.name for plugin in multi if points.implements(plugins[plugin.name], kind) and plugin.name not in disabled
    ]
    first = [name for name in own if name in expanded]
    rest = [name for name in expanded if name not in own]
    last = [name for name in own if name not in expanded]
    return [plugins[name] for name in (*first, *rest, *last)]


def _weights(score: PluginSet, multi: Sequence[EnabledPlugin]) -> dict[str, int]:
    """Return the weights. Those of the point take precedence over those of multiPoint."""
    weights: dict[str, int] = {}
    for plugin in (*score.enabled, *multi):
        weights.setdefault(plugin.name, plugin.weight or 1)
    return weights


def _check_required_points(chosen: Mapping[str, list[Any]], path: str) -> Iterable[Mistake]:
    sorters = [plugin.name for plugin in chosen["queue_sort"]]
    if len(sorters) != 1:
        yield Mistake(_path(path, "queue_sort"), ", ".join(sorters) or "none", "exactly one plugin")
    if not chosen["bind"]:
        yield Mistake(_path(path, "bind"), "none", "at least one plugin")

"""Samples how long plugins take, as kube-scheduler does.

A tenth of the cycles is sampled (upstream pluginMetricsSamplePercent). The framework knows nothing of the sampling: the
engine gets profiles whose plugins are wrapped. A wrapper counts the calls of its plugin, and reads the stopwatch in
sampled cycles. One call covers all nodes, and results known for a class of pods or a run of equal pods need no new
call. The metrics therefore count actual calls, not one for each node and pod.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from typing import Any, Final

from situate.framework.profile.profile import Profile, map_plugins
from situate.framework.results.status import Code
from situate.scheduler.metrics.metrics import SchedulerMetrics

_SAMPLED_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Point:
    """A method of plugins that is timed."""

    name: str
    """Name of the extension point in upstream's metrics."""
    within: str
    """The extension point whose duration it is part of; empty for none."""
    code: Callable[[Any], Code] = lambda _: Code.SUCCESS
    """Returns the status code of an answer."""
    evaluated: bool = False
    """Whether it counts as an evaluation, unless it is skipped."""


def _code_of_status(answer: Any) -> Code:
    code: Code = answer.status.code
    return code


def _code_of_answer(answer: Any) -> Code:
    code: Code = answer.code
    return code


def _code_of_permit(answer: Any) -> Code:
    code: Code = answer[0].code
    return code


_POST_FILTER: Final = "PostFilter"
_PREFLIGHT: Final = "PreBindPreFlight"
"""The only extension point that may be skipped as a whole."""
_POINTS: Final = {
    "pre_filter": _Point("PreFilter", "PreFilter", _code_of_status, evaluated=True),
    "filter": _Point("Filter", "Filter", evaluated=True),
    "add_pod": _Point("PreFilterExtensionAddPod", ""),
    "remove_pod": _Point("PreFilterExtensionRemovePod", ""),
    "post_filter": _Point(_POST_FILTER, _POST_FILTER, _code_of_status),
    "pre_score": _Point("PreScore", "PreScore", _code_of_answer, evaluated=True),
    "score": _Point("Score", "Score", evaluated=True),
    "normalize": _Point("ScoreExtensionNormalize", "Score"),
    "reserve": _Point("Reserve", "Reserve", _code_of_status),
    "unreserve": _Point("Unreserve", "Unreserve"),
    "permit": _Point("Permit", "Permit", _code_of_permit),
    "pre_bind_preflight": _Point(_PREFLIGHT, _PREFLIGHT, _code_of_answer),
}
"""By method name. The actions of PreBind, Bind and PostBind are performed and timed elsewhere."""


class PluginTimes:
    """The sampling state of one process: whether this cycle is sampled, and its measurements."""

    def __init__(self, metrics: SchedulerMetrics, stopwatch: Callable[[], float], rng: random.Random) -> None:
        self._metrics = metrics
        self._stopwatch = stopwatch
        self._rng = rng
        self._sampled = False
        self._in_post_filter = False
        self._points: dict[tuple[str, str], tuple[float, Code]] = {}
        """Seconds and outcome of this cycle, by extension point and profile."""

    def begin(self) -> None:
        """Start or resume a cycle; only its plugins run until `end`."""
        self._sampled = self._rng.random() < _SAMPLED_SHARE

    def end(self) -> None:
        if not self._sampled:
            return
        self._sampled = False
        for (point, profile), (seconds, code) in self._points.items():
            self._metrics.record_extension_point(point, code.title, profile, seconds)
        self._points.clear()

    def with_timed_plugins(self, profile: Profile) -> Profile:
        """Return the profile with wrapped plugins."""
        return map_plugins(profile, lambda plugin: self._wrap_plugin(plugin, profile.scheduler_name))

    def _wrap_plugin(self, plugin: Any, profile: str) -> Any:
        """Wrap a plugin with exactly its own methods, because callers check which methods it has."""
        shown: dict[str, Any] = {}
        for name in dir(plugin):
            if name.startswith("_"):
                continue
            if name in _POINTS:
                shown[name] = staticmethod(self._timed_method(plugin, name, profile))
            elif name == "with_handle":
                shown[name] = staticmethod(lambda handle: self._wrap_plugin(plugin.with_handle(handle), profile))
            elif callable(value := getattr(plugin, name)):
                shown[name] = staticmethod(value)
            elif getattr_static(type(plugin), name, None) is value:
                shown[name] = value  # the same for all of its type, and read often
            else:
                shown[name] = property(partial(_read, plugin, name))
        return type(type(plugin).__name__, (), {"__slots__": (), "__doc__": plugin.__doc__, **shown})()

    def _timed_method(self, plugin: Any, method: str, profile: str) -> Callable[..., Any]:
        point, ask, name = _POINTS[method], getattr(plugin, method), plugin.name
        evaluated = self._metrics.evaluations(name, point.name, profile) if point.evaluated else None

        def asked(*arguments: Any) -> Any:
            if not self._sampled:
                answer = ask(*arguments)
                if evaluated is not None and point.code(answer) is not Code.SKIP:
                    evaluated.count += 1
                return answer
            outer, self._in_post_filter = self._in_post_filter, self._in_post_filter or point.name == _POST_FILTER
            code, began = Code.ERROR, self._stopwatch()
            try:
                answer = ask(*arguments)
                code = point.code(answer)
            finally:
                seconds = self._stopwatch() - began
                self._in_post_filter = outer
                self._record_call(point, name, profile, code, seconds)
            if evaluated is not None and code is not Code.SKIP:
                evaluated.count += 1
            return answer

        return asked

    def _record_call(self, point: _Point, plugin: str, profile: str, code: Code, seconds: float) -> None:
        self._metrics.record_plugin_call(plugin, point.name, code.title, seconds)
        if not point.within or self._in_post_filter:  # plugins that preemption runs count as PostFilter's time
            return
        if code is Code.SKIP and point.within != _PREFLIGHT:
            code = Code.SUCCESS
        key = point.within, profile
        before, worst = self._points.get(key, (0.0, code))
        self._points[key] = before + seconds, _more_serious_code(worst, code)


def _read(plugin: object, name: str, _: object) -> Any:
    return getattr(plugin, name)


def _more_serious_code(one: Code, other: Code) -> Code:
    """Return the more serious code: an error before a rejection, a rejection before Wait, Success and Skip."""
    return max(one, other, key=_GRAVITY.__getitem__)


_GRAVITY: Final = {
    Code.SKIP: 0,
    Code.SUCCESS: 1,
    Code.WAIT: 2,
    Code.PENDING: 3,
    Code.UNSCHEDULABLE: 4,
    Code.UNRESOLVABLE: 5,
    Code.ERROR: 6,
}

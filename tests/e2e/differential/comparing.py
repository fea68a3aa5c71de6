"""Where two schedulers differ about a pod, and how often each plugin had a say where they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.preemption.extenders import EXTENDER
from situate.framework.profile.profiles import profiles_of
from situate.plugins.registry import registry
from tests.e2e.differential.ours import Answer
from tests.e2e.differential.theirs import Theirs

(_DEFAULT,), _ = profiles_of(KubeSchedulerConfiguration(), registry(())[0])
REFUSING = (*(each.name for each in _DEFAULT.filter if each.name != "NodeName"), EXTENDER)
"""NodeName is none of them: the API server shows a scheduler no waiting pod with a node."""
SCORING = (*(each.name for each in _DEFAULT.score if each.name != "VolumeBinding"), EXTENDER)
"""VolumeBinding is none of them without a `shape`."""
_DEEDS = ("filtered", "scored", "had a say in preemption", "was ignored", "broke the cycle")
"""Of extenders."""
_VOLUMES = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_ROOM = ("against a budget", "for volumes", "as an extender lets it", "while another pod came")
"""What making room was about."""
ENDED_EARLY = "ended early"
HEARD_LATE = "heard of late"
"""A placement elsewhere, of which we heard when room had been made already: it may have been decided before that."""
MOST_HEARD_LATE = 2
"""In 500 pods it is rarely one: more are no chance."""
ELSE = ("pods", "placed", "refused", "gated", "made room")
ENOUGH = 10
"""So often at least, among 500 pods."""
SOMETIMES = 3
"""And so often what takes several coincidences."""


def differences(theirs: Theirs, ours: Answer | None) -> list[str]:
    """A sentence for each; none where the two agree."""
    if ours is None:
        return ["our queue did not let the pod go"]
    found = []
    if theirs.node:
        if theirs.node not in ours.best:
            found.append(f"it chose {theirs.node}, we {' or '.join(sorted(ours.best)) or 'none: ' + ours.message}")
        elif ours.chosen not in ours.best:
            found.append(f"the engine chose {ours.chosen}, which is none of {sorted(ours.best)}")
        return found
    if ours.best or ours.chosen:
        return [f"it refused the pod ({theirs.message}), we chose one of {sorted(ours.best)}"]
    if _in_order(theirs.message) != _in_order(ours.message) and not _broken_by_extender(theirs, ours):
        found.append(f"it says:\n  {theirs.message}\nwe say:\n  {ours.message}")
    if bool(theirs.nominated) != bool(ours.nominated):
        found.append(f"it makes room on {theirs.nominated or 'no node'}, we on {ours.nominated or 'none'}")
    elif theirs.nominated:
        found += _worse(theirs.nominated, ours)
    return found


def _in_order(message: str) -> str:
    """Several errors at once stand in the order in which kube-scheduler's threads met them."""
    before, bracket, errors = message.partition("preemption: [")
    return before + bracket + ", ".join(sorted(errors.removesuffix("]").split(", ")))


def _broken_by_extender(theirs: Theirs, ours: Answer) -> bool:
    """We say which extender, and what it was asked, before what it said."""
    return "broke the cycle" in ours.asked and ours.message.endswith(f": {theirs.message}")


def _worse(node: str, ours: Answer) -> list[str]:
    """Nodes that cost the same are equally good."""
    own, there = ours.room[ours.nominated], ours.room[node]
    if isinstance(there, str):
        return [f"it makes room on {node}, where we see no use in that: {there}"]
    if isinstance(own, str) or own[1] != there[1]:
        return [f"it makes room on {node} ({there}), we on {ours.nominated} ({own})"]
    return []


def _special(node: str, ours: Answer) -> list[str]:
    """What else there was to making room on the node."""
    why = []
    there = ours.room[node]
    if not isinstance(there, str) and there[1][0]:
        why.append("against a budget")
    if any(plugin in _VOLUMES for plugin, _, _ in (refusal.partition(":") for refusal in ours.refused[node])):
        why.append("for volumes")
    if "had a say in preemption" in ours.asked:
        why.append("as an extender lets it")
    return why


def victims_differ(node: str, gone: frozenset[str], ours: Answer) -> list[str]:
    """Whether other pods had to leave the node than we would have chosen there."""
    there = ours.room.get(node, "not that node")
    if not isinstance(there, str) and there[0] == gone:
        return []
    return [f"to make room on {node} it ended {sorted(gone)}, we would have ended {there}"]


def counted(theirs: Theirs, ours: Answer) -> Counter[str]:
    """What a comparison has tried."""
    found = Counter({"pods": 1, "placed" if theirs.node else "refused": 1})
    if theirs.nominated:
        found["made room"] += 1
        found |= {f"made room {why}": 1 for why in _special(theirs.nominated, ours)}
    for deed in ours.asked:
        found[f"extender {deed}"] += 1
    for plugin in ours.narrowing:
        found[f"{plugin} narrowed"] += 1
    for plugin in ours.rejecting:
        found[f"{plugin} refused"] += 1
    for plugin in ours.deciding:
        found[f"{plugin} decided"] += 1
    return found


def table(counts: Mapping[str, int]) -> list[str]:
    """A line for each plugin."""
    lines = ["  ".join(f"{counts.get(name, 0)} {name}" for name in ELSE)]
    lines.append("made room: " + ", ".join(f"{counts.get(f'made room {why}', 0)} {why}" for why in _ROOM))
    lines[-1] += f"; {counts.get(ENDED_EARLY, 0)} clusters ended with a pod that nobody waited for"
    lines[-1] += f", {counts.get(HEARD_LATE, 0)} placements elsewhere were heard of late"
    lines.append("an extender: " + ", ".join(f"{counts.get(f'extender {deed}', 0)} {deed}" for deed in _DEEDS))
    lines.append(f"{'plugin':34}{'narrowed':>10}{'refused':>10}{'decided':>10}")
    for plugin in dict.fromkeys((*REFUSING, *SCORING)):
        narrowed, refused, decided = (counts.get(f"{plugin} {what}", 0) for what in ("narrowed", "refused", "decided"))
        told = (f"{narrowed:10}{refused:10}" if plugin in REFUSING else " " * 20) + (
            f"{decided:10}" if plugin in SCORING else ""
        )
        lines.append(f"{plugin:34}{told}".rstrip())
    return lines


def rarely(counts: Mapping[str, int], enough: int = ENOUGH) -> list[str]:
    """What was tried too seldom to say much."""
    wanted = {f"{plugin} refused": enough for plugin in REFUSING} | {f"{plugin} decided": enough for plugin in SCORING}
    wanted |= dict.fromkeys(ELSE, enough) | {f"made room {why}": SOMETIMES for why in _ROOM}
    wanted |= {f"extender {deed}": SOMETIMES for deed in _DEEDS}
    return [f"{name}: {counts.get(name, 0)}" for name, least in wanted.items() if counts.get(name, 0) < least]

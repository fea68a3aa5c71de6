"""Implement `situate scheduler replay`: a recording under another profile, compared placement by placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from situate.cli.scheduler.cluster_state import Remarks
from situate.cli.scheduler.profiles import Profiles, read_profiles
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_items, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.framework.explain.compare import Agreement, Comparison
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.objects.values.counts import format_count
from situate.scheduler.recordings.files import Recording, read_recording
from situate.scheduler.recordings.format import BadRecording, ObjectEntry
from situate.scheduler.recordings.replay import PodStory, Replay
from situate.scheduler.recordings.replay import replay as replayed

_COUNTS: Final = (Column("result"), Column("pods", right=True), Column("meaning", wide=True))
_SIDES: Final = (Column(""), Column("there", right=True), Column("here", right=True))
_DIFFERENCES: Final = (
    Column("pod", lambda story: story.pod),
    Column(
        "at",
        lambda story: _time_text(story.here_at if story.here_at is not None else story.there_at),
        right=True,
        wide=True,
    ),
    Column("there", lambda story: story.there or "-"),
    Column("here", lambda story: (story.here or "-") + (" (preempted)" if story.preempted else "")),
    Column("result", lambda story: story.agreement.value),
    Column("why", lambda story: story.difference or "-"),
)
_MAX_ROWS: Final = 20
_MEANING: Final = {
    Agreement.SAME: "the same node, or no node on either side",
    Agreement.TIE: "another node with the same total",
    Agreement.OTHER: "another node, with a lower total under this profile",
    Agreement.IMPOSSIBLE: "the recorded node is not feasible under this profile",
    Agreement.REFUSED_HERE: "no node under this profile",
    Agreement.REFUSED_THERE: "no node in the recording",
}


def show(recording: Path, profile: Path | None, output: Format) -> None:
    """Print the comparison."""
    with report_failures():
        profiles = read_profiles(profile).without_extenders()
        read = _read_file(recording)
        remarks = Remarks(list(read.remarks))
        chosen = profiles.for_names(_scheduler_names(read))
        for remark in chosen.remarks:
            remarks.add(remark)
        with progress("replaying", max(read.seconds, 1.0)) as bar:
            result = replayed(read.entries, chosen.engine, remarks, lambda at: bar.update("replaying", at))
    print_answer(
        output,
        lambda: as_data(result, profiles, remarks.sentences),
        lambda: _print(result, recording, profiles, output),
        remarks.sentences,
    )


def _read_file(path: Path) -> Recording:
    try:
        with progress(f"reading {path}"):
            return read_recording(path)
    except BadRecording as problem:
        raise WrongInput(f"{path}: {problem}") from None
    except OSError as problem:
        raise WrongInput(f"{path}: cannot be read: {problem.strerror or problem}") from None


def _scheduler_names(read: Recording) -> set[str]:
    """Return the schedulers of the Pods that waited."""
    found = set()
    for entry in read.entries:
        if isinstance(entry, ObjectEntry) and entry.resource is PODS:
            pod: Pod = entry.object
            if not pod.spec.node_name:
                found.add(pod.spec.scheduler_name)
    return found


def _print(result: Replay, path: Path, profiles: Profiles, form: Format) -> None:
    under = profiles.source or "kube-scheduler's default profile, all nodes scored"
    decided = sum(result.counts().values())
    print_line(
        f"{path}: {_duration_text(result.seconds)}, decisions about {format_count(decided, 'pod')}, "
        f"{format_count(result.nodes, 'node')} at the end; under {under}"
    )
    print_line()
    rows = [(kind.value, number, _MEANING[kind]) for kind, number in result.counts().items() if number]
    print_table(_COUNTS, rows, form)
    print_line()
    print_table(_SIDES, _side_rows(result), form)
    different = [each for each in result.stories if each.agreement not in (None, Agreement.SAME, Agreement.TIE)]
    if not different:
        return
    print_line()
    shown = different if form is Format.WIDE else different[:_MAX_ROWS]
    print_items(_DIFFERENCES, shown, form)
    if len(shown) < len(different):
        print_line(f"and {len(different) - len(shown)} more; -o wide shows them")


def _side_rows(result: Replay) -> list[tuple[object, ...]]:
    means = result.averages
    placed_there = sum(bool(each.there) for each in result.stories)
    placed_here = sum(bool(each.here) for each in result.stories)
    rows: list[tuple[object, ...]] = [
        ("pods placed", placed_there, placed_here),
        ("pending, on average", f"{means.pending_there:.1f}", f"{means.pending_here:.1f}"),
        ("pending, at most", means.most_pending_there, means.most_pending_here),
        ("nodes with pods, on average", f"{means.nodes_there:.1f}", f"{means.nodes_here:.1f}"),
        ("nodes with pods, at the end", result.there.nodes_used, result.here.nodes_used),
        ("spread of cpu over nodes", f"{result.there.spread:.1%}", f"{result.here.spread:.1%}"),
    ]
    rows += [
        (f"{name} requested, at the end", f"{part:.1%}", f"{result.here.requested.get(name, 0.0):.1%}")
        for name, part in result.there.requested.items()
    ]
    return rows


def _time_text(at: float | None) -> str:
    return "" if at is None else f"{at:.1f}s"


def _duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest}s" if rest else ""]
    return "".join(parts) or "0s"


def as_data(result: Replay, profiles: Profiles, remarks: list[str]) -> dict[str, Any]:
    """Return the whole comparison as plain data."""
    return {
        "profile": profiles.source,
        "seconds": result.seconds,
        "nodes": result.nodes,
        "counts": {kind.value: number for kind, number in result.counts().items()},
        "pending": {
            "mean": {"there": result.averages.pending_there, "here": result.averages.pending_here},
            "most": {"there": result.averages.most_pending_there, "here": result.averages.most_pending_here},
        },
        "nodesUsed": {"mean": {"there": result.averages.nodes_there, "here": result.averages.nodes_here}},
        "atTheEnd": {
            side: {"requested": dict(usage.requested), "nodesUsed": usage.nodes_used, "spread": usage.spread}
            for side, usage in (("there", result.there), ("here", result.here))
        },
        "samples": [
            {
                "at": each.at,
                "pendingThere": each.pending_there,
                "pendingHere": each.pending_here,
                "nodesThere": each.nodes_there,
                "nodesHere": each.nodes_here,
            }
            for each in result.samples
        ],
        "pods": [_story_data(each) for each in result.stories],
        "remarks": remarks,
    }


def _story_data(story: PodStory) -> dict[str, Any]:
    agreement = story.agreement
    return {
        "pod": story.pod,
        "arrived": story.arrived,
        "there": {"node": story.there, "at": story.there_at},
        "here": {"node": story.here, "at": story.here_at, "preempted": story.preempted},
        "result": "" if agreement is None else agreement.value,
        "why": story.difference,
        "scores": _scores_data(story.comparison),
    }


def _scores_data(found: Comparison | None) -> dict[str, Any] | None:
    if found is None or not any(found.totals):
        return None
    return {
        "here": found.totals[0],
        "there": found.totals[1],
        "plugins": {plugin: {"here": ours, "there": theirs} for plugin, (ours, theirs) in found.shares.items()},
    }

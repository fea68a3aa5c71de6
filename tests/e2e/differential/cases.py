"""What comes of asking both: counts where they agree, and a file for each pod about which they differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.e2e.differential.api import Object
from tests.e2e.differential.objects import Cluster
from tests.e2e.differential.theirs import Theirs


@dataclass(frozen=True, slots=True)
class Case:
    """A pod about which the two differ, with the cluster as it stood."""

    seed: int
    pod: Object
    cluster: Cluster
    theirs: Theirs
    ours: Object
    differences: list[str]

    def as_json(self) -> Object:
        return {
            "seed": self.seed,
            "differences": self.differences,
            "theirs": self.theirs.as_json(),
            "ours": self.ours,
            "pod": self.pod,
            "cluster": self.cluster,
        }

    @classmethod
    def from_json(cls, wire: Object) -> Case:
        """As `as_json` wrote it."""
        theirs = Theirs(**wire["theirs"])
        return cls(wire["seed"], wire["pod"], wire["cluster"], theirs, wire["ours"], wire["differences"])


@dataclass(slots=True)
class Played:
    """What a seed has come to."""

    counts: Counter[str] = field(default_factory=Counter)
    cases: list[Case] = field(default_factory=list)

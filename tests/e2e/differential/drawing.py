"""Drawing at random: the words that clusters and pods have in common, few of each, so that coincidences are common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KEYS = (ZONE, HOSTNAME, "rack")
IMAGES = {
    "web:1": 300,
    "db:latest": 900,
    "registry.example.com:5000/tool:latest": 2000,
    "registry.example.com/big@sha256:" + "a" * 64: 5000,
}
"""With their sizes in MiB, the same on every node."""
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
MEBI = 2**20


class Draw:
    """Of one seed."""

    def __init__(self, seed: object) -> None:
        self._random = Random(str(seed))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def one(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Different ones."""
        return self._random.sample(choices, min(len(choices), self.number(least, most)))

    def many(self, least: int, most: int, make: Callable[[], T]) -> list[T]:
        return [make() for _ in range(self.number(least, most))]

    def maybe(self, probability: float, name: str, make: Callable[[], Any]) -> dict[str, Any]:
        """A field, or none."""
        return {name: make()} if self.chance(probability) else {}

    def labels(self) -> dict[str, str]:
        """Of a pod."""
        return {key: self.one(values) for key, values in (("app", "aab"), ("tier", "cd")) if self.chance(0.75)}

    def selector(self, *, without: str = "") -> dict[str, Any]:
        """Of pods; sometimes of all. `without`: a key that it says nothing about."""
        if self.chance(0.45):
            return {"matchLabels": {"app": "a"}}
        labels = {key: value for key, value in self.labels().items() if key != without}
        chosen: dict[str, Any] = {"matchLabels": labels} if labels and self.chance(0.6) else {}
        if self.chance(0.4):
            chosen["matchExpressions"] = [self._requirement([key for key in ("app", "tier") if key != without])]
        return chosen

    def _requirement(self, keys: Sequence[str]) -> dict[str, Any]:
        operator = self.one(("In", "NotIn", "Exists", "DoesNotExist"))
        values = {"values": self.one((["a"], ["a", "c"], ["d"]))} if operator in ("In", "NotIn") else {}
        return {"key": self.one(keys), "operator": operator, **values}

"""Predicates and priorities from ConfigMaps, as they appear, break, and are exchanged for others while running."""

from __future__ import annotations

import random
from typing import Any, cast

import msgspec
import pytest

from situate.kube.client import Client
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.meta import ObjectMeta
from situate.vpod.config.settings import StatefulSetSettings
from situate.vpod.controller.informers import Informers
from situate.vpod.controller.policies import Policies
from situate.vpod.model.options import PolicyName
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING, Policy

pytestmark = pytest.mark.rule("vpod:B15", "vpod:D16")

SETTINGS = StatefulSetSettings(
    stateful_set_namespace="ns",
    stateful_set_name="kafka-source-dispatcher",
    pod_capacity=5,
    policy=PolicyName.POLICY,
    scheduler_config="placing",
    descheduler_config="removing",
)


def config_map(name: str, priority: str) -> ConfigMap:
    data = {"predicates": "[]", "priorities": f'[{{"Name": "{priority}", "Weight": 1}}]'}
    return ConfigMap(ObjectMeta(name, "ns"), data)


def names(policy: Policy) -> list[str]:
    return [each.name for each in policy.priorities]


class Running:
    """What is in force, without a cluster."""

    def __init__(self, settings: StatefulSetSettings) -> None:
        self.watched = Informers.create(settings, cast(Client, None), random.Random(1))
        self.told: list[str] = []
        self.changes = 0
        self.policies = Policies(self.watched, settings, lambda *event: self.told.append(event[2]), self._changed)

    def put(self, new: ConfigMap) -> None:
        assert self.watched.policies is not None
        self.watched.policies.store.put(new)

    def reconfigure(self, **changes: Any) -> None:
        self.policies.reconfigure(msgspec.structs.replace(SETTINGS, **changes))

    def _changed(self) -> None:
        self.changes += 1


def test_what_is_valid_is_in_force_and_stays_when_it_breaks() -> None:
    running = Running(SETTINGS)
    assert running.policies.placing == DEFAULT_PLACING
    running.put(config_map("placing", "LowestOrdinalPriority"))
    assert names(running.policies.placing) == ["LowestOrdinalPriority"]
    running.put(ConfigMap(ObjectMeta("placing", "ns"), {"predicates": "no"}))
    assert (names(running.policies.placing), running.told) == (["LowestOrdinalPriority"], ["ConfigInvalid"])
    assert running.policies.removing == DEFAULT_REMOVING
    assert running.changes == 1


def test_other_config_maps_may_be_named_while_running() -> None:
    running = Running(SETTINGS)
    for name in ("placing", "removing"):
        running.put(config_map(name, "LowestOrdinalPriority"))
    running.put(config_map("other", "RemoveWithHighestOrdinalPriority"))

    running.reconfigure(descheduler_config="other")

    assert names(running.policies.placing) == ["LowestOrdinalPriority"]
    assert names(running.policies.removing) == ["RemoveWithHighestOrdinalPriority"]
    running.put(config_map("removing", "LowestOrdinalPriority"))
    assert names(running.policies.removing) == ["RemoveWithHighestOrdinalPriority"], "it is not asked any more"


def test_a_config_map_that_is_not_there_yet_leaves_what_knative_ships() -> None:
    running = Running(SETTINGS)
    running.put(config_map("placing", "LowestOrdinalPriority"))
    running.reconfigure(scheduler_config="to-come")
    assert running.policies.placing == DEFAULT_PLACING
    running.put(config_map("to-come", "LowestOrdinalPriority"))
    assert names(running.policies.placing) == ["LowestOrdinalPriority"]


def test_a_policy_that_begins_while_running_is_the_one_that_knative_ships() -> None:
    """Its ConfigMaps are read after a restart."""
    running = Running(msgspec.structs.replace(SETTINGS, policy=PolicyName.SPREAD))
    running.reconfigure()
    assert (running.policies.placing, running.changes) == (DEFAULT_PLACING, 0)

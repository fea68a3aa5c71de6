"""The `scheduler:` section, or a KubeSchedulerConfiguration in its place: what they come to, and mistakes by path."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from situate.kube.election.lease_record import ElectionTimes, LeaseName
from situate.objects.settings.section import Mistake, parse_section
from situate.plugins.registry import registry
from situate.scheduler.config.settings import ClientRate, SchedulerSettings
from situate.scheduler.config.setup import Setup, effective_section, kube_configuration, set_up
from situate.scheduler.permissions import permissions

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def settings_of(data: dict[str, Any]) -> SchedulerSettings:
    found, mistakes = parse_section(data, SchedulerSettings, "scheduler")
    assert found is not None, mistakes
    return found


def mistakes_of(data: dict[str, Any]) -> list[str]:
    return [str(each) for each in parse_section(data, SchedulerSettings, "scheduler")[1]]


def setup_of(data: dict[str, Any], file: dict[str, Any] | None = None) -> Setup:
    loaded = None
    if file is not None:
        loaded, mistakes = kube_configuration(yaml.safe_dump({**HEADER, **file}))
        assert loaded is not None, mistakes
    setup, mistakes = set_up(settings_of(data), loaded, registry(())[0])
    assert setup is not None, mistakes
    return setup


def test_an_empty_section_scores_all_nodes_for_pods_that_name_situate() -> None:
    setup = setup_of({})
    (profile,) = setup.profiles
    assert (profile.scheduler_name, profile.percentage_of_nodes_to_score) == ("situate", 100)
    assert setup.election is not None
    assert setup.election.lease("here") == LeaseName("here", "scheduler")
    assert setup.election.times is None, "those of the process"


def test_profiles_have_kube_schedulers_terms() -> None:
    setup = setup_of(
        {
            "profiles": [
                {
                    "schedulerName": "packer",
                    "percentageOfNodesToScore": 30,
                    "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}},
                },
                {"schedulerName": "plain"},
            ],
            "podInitialBackoffSeconds": 2,
            "podMaxBackoffSeconds": 20,
        }
    )
    packer, plain = setup.profiles
    assert (packer.percentage_of_nodes_to_score, plain.percentage_of_nodes_to_score) == (30, 100)
    names = [[each.name for each in profile.score] for profile in setup.profiles]
    assert "ImageLocality" not in names[0]
    assert "ImageLocality" in names[1]
    assert (setup.queue.backoff.initial_s, setup.queue.backoff.most_s) == (2.0, 20.0)


def test_a_file_of_kube_schedulers_means_what_it_means_there() -> None:
    setup = setup_of({"configuration": "kube.yaml"}, {})
    (profile,) = setup.profiles
    assert (profile.scheduler_name, profile.percentage_of_nodes_to_score) == ("default-scheduler", 0)
    assert setup.rate == ClientRate(50.0, 100)
    assert setup.election is not None
    assert setup.election.lease("here") == LeaseName("kube-system", "kube-scheduler")
    assert setup.election.times == ElectionTimes(15.0, 10.0, 2.0)
    alone = setup_of({"configuration": "kube.yaml"}, {"leaderElection": {"leaderElect": False}})
    assert alone.election is None
    assert not [each for each in permissions(None, shadow=False) if each.resource == "leases"]


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param({"profile": []}, "scheduler.profile: found []", id="unknown field"),
        pytest.param(
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            "scheduler.profiles[1].schedulerName: found a, allowed: each name once",
            id="a name twice",
        ),
        pytest.param({"callsInFlight": 0}, "scheduler.callsInFlight: found 0", id="nothing in flight"),
        pytest.param(
            {"configuration": "kube.yaml", "podMaxBackoffSeconds": 60},
            "scheduler.podMaxBackoffSeconds: found 60, allowed: no value, because configuration names a file; "
            "move the setting to that file",
            id="said twice",
        ),
        pytest.param(
            {"configuration": "../kube.yaml"}, "allowed: the name of a file in the folder of this one", id="elsewhere"
        ),
        pytest.param(
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 0}]}}}]},
            "scheduler.profiles[0].plugins.score.enabled[0].weight: found 0",
            id="weight 0",
        ),
    ],
)
def test_a_mistake_is_told_with_its_path(data: dict[str, Any], want: str) -> None:
    found = mistakes_of(data)
    assert any(want in each for each in found), found


@pytest.mark.parametrize(
    ("file", "want"),
    [
        pytest.param({"podBackoff": 1}, "podBackoff", id="unknown field"),
        pytest.param({"healthzBindAddress": ""}, "healthzBindAddress", id="of an older version"),
        pytest.param({"kind": "Other"}, "kind", id="another kind"),
        pytest.param({"profiles": [{"plugin": {}}]}, "profiles[0].plugin", id="unknown field of a profile"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_path(file: dict[str, Any], want: str) -> None:
    loaded, mistakes = kube_configuration(yaml.safe_dump({**HEADER, **file}))
    assert loaded is None
    assert [each.path for each in mistakes] == [want]


def test_a_plugin_that_there_is_not_is_told_with_the_choices() -> None:
    data = {"profiles": [{"plugins": {"score": {"enabled": [{"name": "ImageLocalty"}]}}}]}
    setup, (mistake,) = set_up(settings_of(data), None, registry(())[0])
    assert setup is None
    assert isinstance(mistake, Mistake)
    assert mistake.path == "profiles[0].plugins.score.enabled[0].name"
    assert "ImageLocality" in mistake.allowed
    assert mistake.hint == "did you mean ImageLocality?"


def test_a_shadow_may_only_read() -> None:
    shadow = permissions(LeaseName("here", "scheduler"), shadow=True)
    writes = {each.resource for each in shadow if set(each.verbs) - {"get", "list", "watch"}}
    assert writes <= {"events", "leases"}
    full = permissions(LeaseName("here", "scheduler"), shadow=False)
    assert {"pods/binding", "pods/status"} <= {each.resource for each in full}


FROM_A_FILE: dict[str, Any] = {
    "percentageOfNodesToScore": 50,
    "clientConnection": {"qps": 77, "burst": 99},
    "leaderElection": {"resourceName": "mine", "resourceNamespace": "infra"},
    "profiles": [
        {
            "schedulerName": "packing",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "NodeResourcesFit", "weight": 7}],
                    "disabled": [{"name": "NodeName"}],
                },
                "score": {"disabled": [{"name": "ImageLocality"}]},
            },
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
        }
    ],
}


@pytest.mark.finding("N1")
def test_what_is_in_force_is_what_the_file_says_with_the_defaults_of_the_rest() -> None:
    loaded, _ = kube_configuration(yaml.safe_dump({**HEADER, **FROM_A_FILE}))
    section = effective_section(settings_of({"configuration": "ksc.yaml", "callsInFlight": 5}), loaded, registry(())[0])
    assert (section["configuration"], section["callsInFlight"]) == ("ksc.yaml", 5)
    assert (section["percentageOfNodesToScore"], section["leaseName"]) == (50, "mine")
    assert section["client"] == {"qps": 77.0, "burst": 99}
    assert section["leaderElection"]["resourceNamespace"] == "infra"
    (profile,) = section["profiles"]
    assert (profile["schedulerName"], profile["percentageOfNodesToScore"]) == ("packing", 50)
    plugins = {each["name"]: each["weight"] for each in profile["plugins"]["multiPoint"]["enabled"]}
    assert (plugins["NodeResourcesFit"], plugins["TaintToleration"]) == (7, 3)
    assert "NodeName" not in plugins
    arguments = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert arguments["NodeResourcesFit"]["scoringStrategy"]["type"] == "MostAllocated"
    assert arguments["InterPodAffinity"]["hardPodAffinityWeight"] == 1


@pytest.mark.finding("N1")
@pytest.mark.parametrize("file", [{}, FROM_A_FILE], ids=["defaults", "changed"])
def test_what_is_in_force_makes_the_same_scheduler_when_it_is_written_to_a_file(file: dict[str, Any]) -> None:
    def described(setup: Setup) -> list[tuple[object, ...]]:
        points = ("pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "reserve", "permit", "bind")
        return [
            (
                each.scheduler_name,
                each.percentage_of_nodes_to_score,
                [(weighted.plugin.name, weighted.weight) for weighted in each.score],
                *([plugin.name for plugin in getattr(each, point)] for point in points),
            )
            for each in setup.profiles
        ]

    loaded, _ = kube_configuration(yaml.safe_dump({**HEADER, **file}))
    section = effective_section(settings_of({"configuration": "ksc.yaml"}), loaded, registry(())[0])
    written = {key: section[key] for key in ("percentageOfNodesToScore", "profiles", "extenders", "leaderElection")} | {
        "clientConnection": section["client"]
    }
    first, again = (setup_of({"configuration": "ksc.yaml"}, each) for each in (file, written))
    assert described(again) == described(first)
    assert (again.election, again.rate, again.queue) == (first.election, first.rate, first.queue)

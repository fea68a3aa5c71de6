from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
import pytest

from situate.objects.settings.section import Duration
from situate.runtime.configuration.file import (
    Configuration,
    Section,
    as_plain,
    configuration_schema,
    environment_overrides,
    environment_variables,
    flag_overrides,
    parse_configuration,
)
from situate.runtime.configuration.shared_settings import LeaderElection, RuntimeSettings

HEAD = "apiVersion: situate.dev/v1alpha1\nkind: Situate\n"


class Fleet(msgspec.Struct, frozen=True, rename="camel"):
    """A made-up product."""

    name: str
    pod_capacity: Annotated[int, msgspec.Meta(ge=1)] = 20
    beat: Duration = 100.0


class Single(msgspec.Struct, frozen=True, rename="camel"):
    """Another one."""

    on: bool = True


SECTIONS = (
    Section("fleet", list[Fleet], {"POD_CAPACITY": "fleet[*].podCapacity"}),
    Section("single", Single),
)


def good(text: str, environment: Mapping[str, str] | None = None, *flags: str) -> Configuration:
    from_environment, wrong = environment_overrides(environment or {}, SECTIONS)
    from_flags, wrong_flags = flag_overrides(flags)
    assert not wrong
    assert not wrong_flags
    configuration, mistakes = parse_configuration(HEAD + text, SECTIONS, from_environment + from_flags)
    assert configuration is not None, mistakes
    return configuration


def bad(text: str) -> list[str]:
    configuration, mistakes = parse_configuration(text, SECTIONS)
    assert configuration is None
    return [str(each) for each in mistakes]


def test_reads_shared_keys_and_sections() -> None:
    configuration = good("leaderElection: {namespace: situate, leaseDuration: 15s}\nfleet: [{name: a, beat: 5m}]\n")
    assert configuration.runtime == RuntimeSettings(leader_election=LeaderElection(namespace="situate"))
    assert configuration.section("fleet", list) == [Fleet("a", beat=300.0)]
    assert configuration.section("single", Single) is None


def test_an_empty_section_names_its_product() -> None:
    assert good("single:\nfleet:\n").sections == {"single": Single(), "fleet": []}


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    text = "fleet: [{name: a, podCapacity: 1}, {name: b}]\nlog: {level: info}\n"
    environment = {"POD_CAPACITY": "7", "SITUATE_LOG_LEVEL": "debug", "SITUATE_CLIENT_QPS": "5", "SITUATE_PORT": "x"}
    configuration = good(text, environment, "fleet[1].podCapacity=9", "log.level=error")
    assert [each.pod_capacity for each in configuration.section("fleet", list) or []] == [7, 9]
    assert configuration.runtime.log.level == "error"
    assert configuration.runtime.client.qps == 5.0


def test_every_mistake_comes_at_once_with_its_path() -> None:
    text = (
        "apiVersion: v1\nkind: Situate\nfleets: []\nlog: {level: loud}\nfleet: [{podCapacity: 0}]\nclient: {qps: 0}\n"
    )
    assert bad(text) == [
        'apiVersion: found "v1", allowed: situate.dev/v1alpha1',
        'log.level: found "loud", allowed: one of debug, error, info, warning',
        "client.qps: found 0, allowed: a number more than 0",
        "fleets: found [], allowed: only the keys apiVersion, kind, client, health, leaderElection, log, "
        "shutdownTimeout, workers, fleet, single; did you mean fleet?",
        "fleet[0].podCapacity: found 0, allowed: an integer of at least 1",
        "fleet[0].name: missing, allowed: text; the key has no default",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "apiVersion: missing, allowed: situate.dev/v1alpha1"),
        ("[]", "the document: found [], allowed: a mapping that begins with apiVersion"),
        ("a: 1\na: 2", 'line 2: found key "a", allowed: each key once'),
        (HEAD + "leaderElection: {renewDeadline: 15s}", "leaderElection.renewDeadline: found 15s, allowed: less than"),
        (HEAD + "leaderElection: {retryPeriod: 9s}", "leaderElection.retryPeriod: found 9s, allowed: less than"),
        (HEAD + "leaderElection: {leaseDuration: 15.5s}", "leaderElection.leaseDuration: found 15.5s, allowed: whole"),
        (HEAD + "health: {address: localhost}", 'health.address: found "localhost", allowed: host:port'),
        (HEAD + "health: {address: ':70000'}", 'health.address: found ":70000", allowed: a port of at most 65535'),
        (HEAD + "shutdownTimeout: 25000000000", "the number is a Go duration in nanoseconds; write 25s"),
    ],
)
def test_says_what_is_wrong(text: str, sentence: str) -> None:
    assert sentence in bad(text)[0]


def test_a_bad_override_says_where_it_came_from() -> None:
    overrides, _ = environment_overrides({"POD_CAPACITY": "0"}, SECTIONS)
    _, (mistake,) = parse_configuration(HEAD + "fleet: [{name: a}]", SECTIONS, overrides)
    assert str(mistake).endswith("the value comes from environment variable POD_CAPACITY")
    assert [str(each) for each in flag_overrides(["fleet"])[1]] == [
        'flag --set: found "fleet", allowed: path=value, such as vpod[0].podCapacity=20'
    ]


def test_every_shared_key_has_a_variable() -> None:
    variables = environment_variables(SECTIONS)
    assert variables["SITUATE_LEADER_ELECTION_LEASE_DURATION"] == "leaderElection.leaseDuration"
    assert variables["SITUATE_SHUTDOWN_TIMEOUT"] == "shutdownTimeout"
    assert variables["POD_CAPACITY"] == "fleet[*].podCapacity"


def test_the_schema_covers_shared_keys_and_sections() -> None:
    schema = configuration_schema(SECTIONS)
    assert schema["required"] == ["apiVersion", "kind"]
    assert {"apiVersion", "leaderElection", "log", "fleet", "single"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_what_is_in_force_can_be_written_as_a_file_that_means_the_same() -> None:
    configuration = good("fleet: [{name: a}]\n")
    text = msgspec.json.encode(as_plain(configuration)).decode()
    assert parse_configuration(text, SECTIONS) == (configuration, ())


def test_asking_for_a_section_as_another_type_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="section single contains Single"):
        good("single: {}").section("single", Fleet)


@pytest.mark.finding("N13", "N29")
@pytest.mark.parametrize("flag", ["health.address=none", "health.address=null"])
def test_there_is_no_health_server_if_none_is_asked_for(flag: str) -> None:
    assert good("", None, flag).runtime.health.listens is None


def test_what_is_given_tells_a_default_from_a_value() -> None:
    assert "health" not in good("").given
    assert good("", None, "health.address=:9090").given["health"] == {"address": ":9090"}
    assert good("health: {address: null}\n").given["health"] == {"address": None}

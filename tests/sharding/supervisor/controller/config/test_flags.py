"""Options of supervisors and executors: every form says the same, the strongest wins, every mistake is named."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from situate.archive import ArchiveOptions, add_archive_options
from situate.objects.resources import unstructured
from situate.objects.settings.options import options_of
from situate.sharding import (
    BadOptions,
    ExecutorConfig,
    ExecutorOptions,
    FieldPaths,
    Scope,
    SupervisorConfig,
    SupervisorOptions,
    add_executor_options,
    add_supervisor_options,
    parse_options,
    with_executor_options,
    with_supervisor_options,
)
from situate.sharding.executor.config import ExecutorIdentity
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.partitions.partitions import PartitionBy
from situate.sharding.rebalancing import Goal
from situate.sharding.strategies import ObjectFacts
from situate.sharding.strategies.protocol import Strategy

pytestmark = pytest.mark.rule("sharding:K15")

REPORTS = unstructured("batch.example.com", "v1", "Report", "reports")
RESOURCE = "batch.example.com/v1/reports"
POD = {"POD_NAME": "executor-0", "POD_NAMESPACE": "reports", "POD_UID": "7ee7d8f0"}


def supervisor(
    *arguments: str, environment: Mapping[str, str] | None = None, file: object = None, prefix: str = ""
) -> SupervisorOptions:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_supervisor_options(parser, prefix=prefix)
    namespace = parser.parse_args(arguments)
    return SupervisorOptions.from_namespace(namespace, prefix=prefix, file=file, environment=environment or {})


def executor(*arguments: str, environment: Mapping[str, str] | None = None, file: object = None) -> ExecutorOptions:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_executor_options(parser)
    return ExecutorOptions.from_namespace(parser.parse_args(arguments), file=file, environment=environment or {})


def mistakes(make: Any, *arguments: Any, **given: Any) -> list[str]:
    with pytest.raises(BadOptions) as bad:
        make(*arguments, **given)
    return str(bad.value).splitlines()


SECTION_12: dict[str, object] = {
    "namespace": None,
    "assigned_to_path": "spec.assignedTo",
    "completed_at_path": "status.completedAt",
    "successful_path": "status.successful",
    "partition": None,
    "partition_table": None,
    "pool": "default",
    "executor_selector": None,
    "executor_namespace": None,
    "lease_duration": 15.0,
    "grace_unhealthy": 5.0,
    "drain_timeout": 30.0,
    "strategy": "MinScheduled",
    "strategy_args": {},
    "requeue_delay": 30.0,
    "scheduler_jitter": 0.5,
    "write_concurrency": 64,
    "rebalance": "off",
    "max_moves_per_interval": "5%",
    "orphan_policy": "reassign",
    "max_reassigns": 3,
    "reassign_window": 3600.0,
    "max_forced_moves_per_s": 200.0,
    "wait_for_successor": 0.0,
    "leader_elect": True,
    "leader_elect_lease_duration": 15.0,
    "leader_elect_renew_deadline": 10.0,
    "leader_elect_retry_period": 2.0,
}
EXECUTOR_12 = {
    "pool": "default",
    "partition": None,
    "executor_capacity": "unlimited",
    "concurrency": 16,
    "renew_interval": 4.0,
    "renew_deadline": 10.0,
    "cancel_grace": 4.0,
    "max_clock_drift": 0.05,
    "metrics_source": "process",
}


def test_defaults_are_those_of_the_reference() -> None:
    made = supervisor("--resource", RESOURCE)
    assert {name: getattr(made, name) for name in SECTION_12} == SECTION_12
    of_executor = executor(environment=POD)
    assert {name: getattr(of_executor, name) for name in EXECUTOR_12} == EXECUTOR_12


def test_defaults_mean_what_the_configurations_mean_by_themselves() -> None:
    made = supervisor("--resource", RESOURCE, "--executor-selector", "app=reports")
    assert replace(made.config(), archive_ttl=None) == SupervisorConfig()
    assert made.scope(REPORTS, "me", "here") == Scope(REPORTS, ExecutorWatch("app=reports"), "me", "here")
    of_executor = executor("--metrics-source", "none", environment=POD).config(REPORTS)
    assert of_executor == ExecutorConfig(REPORTS)


def test_the_strongest_wins() -> None:
    file = {"pool": "of-file", "drainTimeout": "1m", "max_reassigns": 7, "orphan-policy": "fail"}
    environment = {"SITUATE_POOL": "of-env", "SITUATE_DRAIN_TIMEOUT": "20s", "SITUATE_STRATEGY": ""}
    made = supervisor("--resource", RESOURCE, "--pool", "of-flag", environment=environment, file=file)
    got = (made.pool, made.drain_timeout, made.max_reassigns, made.orphan_policy, made.strategy)
    assert got == ("of-flag", 20.0, 7, "fail", "MinScheduled")


def test_a_prefix_keeps_two_groups_apart() -> None:
    parser = argparse.ArgumentParser()
    add_supervisor_options(parser, prefix="small")
    add_supervisor_options(parser, prefix="large-")
    namespace = parser.parse_args(["--small-resource", RESOURCE, "--large-pool", "two", "--large-resource", RESOURCE])
    environment = {"SITUATE_SMALL_POOL": "one", "SITUATE_POOL": "nobody's"}
    small = SupervisorOptions.from_namespace(namespace, prefix="small", environment=environment)
    large = SupervisorOptions.from_namespace(namespace, prefix="large", environment=environment)
    assert (small.pool, large.pool) == ("one", "two")


def test_groups_share_what_they_have_in_common() -> None:
    parser = argparse.ArgumentParser()
    add_supervisor_options(parser)
    add_executor_options(parser)
    namespace = parser.parse_args(["--resource", RESOURCE, "--pool", "both", "--lease-duration", "30s"])
    for made in (
        SupervisorOptions.from_namespace(namespace, environment=POD),
        ExecutorOptions.from_namespace(namespace, environment=POD),
    ):
        assert (made.pool, made.lease_duration) == ("both", 30.0)


def test_switches_go_both_ways() -> None:
    assert not supervisor("--resource", RESOURCE, "--leader-elect=false").leader_elect
    assert not supervisor("--resource", RESOURCE, "--no-leader-elect").leader_elect
    assert supervisor(
        "--leader-elect", "--resource", RESOURCE, environment={"SITUATE_LEADER_ELECT": "false"}
    ).leader_elect


def test_arguments_of_the_strategy() -> None:
    flags = ("--resource", RESOURCE, "--strategy", "MinMetricScore", "--strategy-arg", "weights.cpu=2")
    made = supervisor(*flags, "--strategy-arg", "weights={cpu: 3, memory: 1}", "--strategy-arg", "max_age_s=30")
    assert made.strategy_args == {"weights": {"cpu": 3, "memory": 1}, "max_age_s": 30}
    from_environment = supervisor(*flags[:4], environment={"SITUATE_STRATEGY_ARG": "weights.cpu=2,max_age_s=30"})
    assert from_environment.strategy_args == {"weights": {"cpu": 2}, "max_age_s": 30}


@pytest.mark.parametrize("name", ["MinScheduled", "MinMetricScore", "RoundRobin", "Random", "Ring", "Rendezvous"])
def test_every_strategy_is_made_by_name(name: str) -> None:
    made: Strategy = supervisor("--resource", RESOURCE, "--strategy", name).make_strategy("Report")
    made.observe_executor("executor-0", ExecutorStatus.HEALTHY)
    assert made.choose_executor(ObjectFacts("a UID")) == "executor-0"


def test_all_mistakes_are_named_at_once_where_they_were_made() -> None:
    told = mistakes(
        supervisor,
        *("--resource", "reports", "--drain-timeout", "5q", "--strategy", "MinSchedule"),
        *("--partition", "4/4", "--leader-elect-retry-period", "12s"),
        environment={"SITUATE_MAX_REASSIGNS": "many", "SITUATE_SCHEDULER_JITTER": "1s"},
        file={"rebalance": "often", "pol": "default"},
    )
    assert [line.split(":")[0] for line in told] == [
        "pol",
        "rebalance",
        "--resource",
        "--drain-timeout",
        "SITUATE_MAX_REASSIGNS",
        "--partition",
        "--strategy",
        "--leader-elect-retry-period",
    ]
    by_path = {line.split(":")[0]: line for line in told}
    assert "GROUP/VERSION/PLURAL" in by_path["--resource"]
    assert "one of bounded, even, off, two-sided" in by_path["rebalance"]
    assert "did you mean MinScheduled?" in by_path["--strategy"]
    assert "did you mean pool?" in by_path["pol"]


@pytest.mark.parametrize(
    ("arguments", "path", "allowed"),
    [
        pytest.param(
            ["--executor-selector", ""], "--executor-selector", "labels", id="an empty selector takes every pod"
        ),
        pytest.param(["--executor-selector", "a in"], "--executor-selector", "a label selector", id="no selector"),
        pytest.param(["--partition", "3"], "--partition", "INDEX/COUNT", id="a number without a table"),
        pytest.param(
            ["--partition", "0/2", "--partition-table", "t"], "--partition", "only the number", id="range and table"
        ),
        pytest.param(["--partition-table", "t"], "--partition", "the number of the partition", id="table alone"),
        pytest.param(["--assigned-to-path", "metadata.name"], "--assigned-to-path", "paths", id="a reserved field"),
        pytest.param(["--successful-path", "x"], "--successful-path", "joined by dots", id="one step"),
        pytest.param(
            ["--completed-at-path", "spec.assignedTo"], "--assigned-to-path", "none contains another", id="equal paths"
        ),
        pytest.param(
            ["--strategy-arg", "x=1"], "--strategy-arg.x", "only the keys", id="an argument that nothing reads"
        ),
        pytest.param(["--strategy-arg", "x"], "--strategy-arg", "K=V", id="an argument without a value"),
        pytest.param(["--max-moves-per-interval", "5"], "--max-moves-per-interval", "percentage", id="no percentage"),
        pytest.param(["--desired-min", "5", "--desired-max", "4"], "--desired-min", "at most", id="bounds crossed"),
        pytest.param(["--leader-elect=maybe"], "--leader-elect", "true or false", id="neither yes nor no"),
        pytest.param(["--pool", "A"], "--pool", "a to z", id="no part of a name"),
    ],
)
def test_a_mistake_says_what_is_allowed(arguments: list[str], path: str, allowed: str) -> None:
    told = mistakes(supervisor, "--resource", RESOURCE, *arguments)
    assert [line.split(": ")[0] for line in told] == [path]
    assert allowed in told[0]


def test_mappings_name_their_keys_below_a_path() -> None:
    told = mistakes(
        SupervisorOptions.from_mapping, {"resource": RESOURCE, "pool": 7, "drain_timeout": []}, "sharding[0]"
    )
    assert [line.split(":")[0] for line in told] == ["sharding[0].pool", "sharding[0].drainTimeout"]
    assert mistakes(SupervisorOptions.from_mapping, {}) == [
        "resource: missing, allowed: GROUP/VERSION/PLURAL, such as batch.example.com/v1/reports; the key has no default"
    ]
    assert mistakes(supervisor, "--resource", RESOURCE, file=["pool"]) == [
        'the document: found ["pool"], allowed: a mapping of options'
    ]


def test_options_become_configurations() -> None:
    made = supervisor(
        *("--resource", RESOURCE, "--namespace", "team", "--pool", "big", "--partition", "1/4"),
        *("--executor-namespace", "workers", "--lease-duration", "6s", "--rebalance", "two-sided"),
        *("--max-moves-per-interval", "2.5%", "--orphan-policy", "fail", "--desired-per-executor", "10"),
        *("--co-locate-with-owner", "--leader-elect-namespace", "leases", "--no-leader-elect"),
        *("--namespace-share", "red=2", "--namespace-share", "blue=0.5"),
    )
    archive = ArchiveOptions.from_mapping({"ttl": "1h", "ttlFailed": "2h", "keepLast": 3, "concurrency": 2})
    scope, config = made.scope(REPORTS, "me", "here", archive), made.config(archive)
    selector = "sharding.situate.dev/pool=big,sharding.situate.dev/partition=1-of-4"
    assert scope.executors == ExecutorWatch(selector, "workers")
    assert (scope.namespace, str(scope.lease)) == ("team", "leases/reports.batch.example.com.big.1-of-4.supervisor")
    assert not scope.keyspace.covers_everything
    assert (scope.times.lease_s, scope.election.waits, scope.archive_concurrency) == (6.0, False, 2)
    assert (scope.rebalance.goal, scope.rebalance.max_moves_share) == (Goal.TWO_SIDED, 0.025)
    assert scope.shares == {"red": 2.0, "blue": 0.5}
    assert scope.sizing is not None
    assert scope.sizing.per_executor == 10
    assert scope.rules is not None
    assert scope.rules.co_locate_with_owner
    assert (config.orphan_policy, config.keep_last_per_owner) == ("fail", 3)
    assert (config.ttl.successful, config.ttl.failed) == (3600.0, 7200.0)


def test_who_an_executor_is() -> None:
    anywhere = executor(environment=POD)
    assert anywhere.identity() == ExecutorIdentity("executor-0", "reports", "7ee7d8f0", one_namespace=False)
    one = executor("--executor-namespace", "reports", environment=POD)
    assert one.identity() == ExecutorIdentity("executor-0", "reports", "7ee7d8f0")
    named = executor("--executor-id", "mine", "--executor-uid", "u", environment={"POD_NAMESPACE": "reports"})
    assert named.identity() == ExecutorIdentity("mine", "reports", "u")
    assert named.identity().id == "mine"


@pytest.mark.parametrize(
    ("arguments", "environment", "paths"),
    [
        pytest.param([], {}, ["--executor-id", "--executor-uid"], id="nothing is known"),
        pytest.param(["--executor-id", "a"], {"POD_UID": "u"}, ["--executor-id"], id="no namespace"),
        pytest.param(["--executor-id", "b/a"], POD, ["--executor-id"], id="another namespace than the pod's"),
        pytest.param(["--executor-id", "A_b"], POD, ["--executor-id"], id="no pod's name"),
        pytest.param(["--renew-deadline", "12s"], POD, ["--renew-deadline"], id="work would outlast the lease"),
        pytest.param(["--executor-capacity", "many"], POD, ["--executor-capacity"], id="no number"),
        pytest.param(["--partition", "9/2"], POD, ["--partition"], id="beyond the count"),
    ],
)
def test_mistakes_of_executors(arguments: list[str], environment: Mapping[str, str], paths: list[str]) -> None:
    told = mistakes(executor, *arguments, environment=environment)
    assert [line.split(":")[0] for line in told] == paths


def test_an_executor_runs_as_it_is_told() -> None:
    made = executor(
        *("--partition", "0/2", "--executor-capacity", "2.5", "--concurrency", "4", "--lease-duration", "3s"),
        *(
            "--renew-interval",
            "500ms",
            "--retry-interval",
            "250ms",
            "--renew-deadline",
            "2s",
            "--cancel-grace",
            "500ms",
        ),
        *("--namespace", "team", "--assigned-to-path", "spec.worker"),
        environment=POD,
    ).config(REPORTS)
    assert (made.partition, made.capacity, made.concurrency) == ("0-of-2", 2.5, 4)
    assert (made.namespace, made.adapter) == ("team", FieldPaths(assigned_to_path="spec.worker"))
    assert made.times == LeaseTimes(3.0, 0.5, 0.25, 2.0, 0.5)
    assert made.stall_limit < 2.0
    assert "memory" in made.metrics()


def test_a_program_is_told_of_the_mistakes_of_all_its_groups(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser("reports")
    add_supervisor_options(parser)
    add_archive_options(parser)
    arguments = ["--resource", "x", "--archive-ttl", "soon"]
    with pytest.raises(SystemExit) as ended:
        parse_options(parser, SupervisorOptions, ArchiveOptions, arguments=arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "--resource: found" in told
    assert "--archive-ttl: found" in told
    _, first, second = parse_options(
        parser, SupervisorOptions, ArchiveOptions, arguments=["--resource", RESOURCE, "--archive-ttl", "1h"]
    )
    assert (first.resource, second.archive_ttl) == (RESOURCE, 3600.0)


def test_the_same_options_for_typer() -> None:
    app = typer.Typer()

    @app.command("supervise")
    @with_supervisor_options
    def supervise(options: SupervisorOptions, name: str = "x") -> None:
        typer.echo(f"{name} {options.pool} {options.leader_elect} {options.strategy_args}")

    @app.command("execute")
    @with_executor_options(prefix="my")
    def execute(options: ExecutorOptions) -> None:
        typer.echo(f"{options.executor_id} {options.concurrency}")

    def ran(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
        result = CliRunner().invoke(app, list(arguments), env=dict(environment or {}))
        return result.exit_code, result.output

    flags = ("supervise", "--resource", RESOURCE, "--name", "n", "--no-leader-elect")
    arguments = ("--strategy-arg", "slow_start_max_share=0.5")
    assert ran(*flags, *arguments, environment={"SITUATE_POOL": "big"}) == (
        0,
        "n big False {'slow_start_max_share': 0.5}\n",
    )
    assert ran("execute", "--my-concurrency", "3", environment=POD) == (0, "reports/executor-0 3\n")
    status, told = ran("supervise", "--resource", "x", environment={"COLUMNS": "200"})
    assert status == 2
    assert "--resource: found" in told


def test_every_flag_has_one_variable_and_one_line_of_help() -> None:
    for kind in (SupervisorOptions, ExecutorOptions, ArchiveOptions):
        rows = options_of(kind)
        assert len({row.flag for row in rows}) == len({row.variable for row in rows}) == len(rows)
        assert all(row.help.strip() and row.variable in row.help for row in rows)


@pytest.mark.rule("sharding:K10", "sharding:K15")
def test_a_table_of_partitions_says_what_is_ours() -> None:
    options = SupervisorOptions.from_mapping(
        {"resource": RESOURCE, "partition": "3", "partitionTable": "table", "partitionBy": "name"}
    )
    scope = options.scope(REPORTS, "me", "system")
    assert (scope.partition, scope.partition_table, scope.keyspace.by) == ("3", "table", PartitionBy.NAME)

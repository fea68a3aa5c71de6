"""`situate spot status|explain|plan|ungate` for a cluster that lives: what they print, and how they end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.spot.model.object_names import INTERRUPTIONS_ANNOTATION, NAME, POLICIES
from situate.spot.model.pods_nodes_workloads import GATE, ON_DEMAND
from situate.spot.nodes.interruptions import InterruptionHistory, Wave, to_text
from situate.spot.workloads.policy_record import KEY
from tests.cli.processes import KUBECTL, call, process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-spot")  # one server for all of them

BALLOON_PARTS = ("PriorityClass", "Deployment")
PODS = 11
"""Of the shop."""


class Playground:
    """The server, kubectl and `situate spot` for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def run(self, *arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["spot", *arguments, "--kubeconfig", str(self.kubeconfig)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    def data(self, *arguments: str, code: int = 0) -> Any:
        """What is printed as JSON; YAML says the same."""
        ended, printed, told = self.run(*arguments, "-o", "json")
        assert ended == code, told
        return json.loads(printed)

    def ready(self) -> int:
        pods = json.loads(self.kubectl("get", "pods", "-n", "shop", "-o", "json"))["items"]
        return sum(
            any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
            for pod in pods
        )


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    """Eleven pods on two spot nodes, then an on-demand node with room for four of them."""
    made = Playground(tmp_path_factory.mktemp("spot"))
    server = process(made.folder, "server", "embedded", "--port", "0", "--write-kubeconfig", str(made.kubeconfig))
    server.start()
    try:
        eventually("the server answers", made.kubeconfig.exists)
        made.kubectl("config", "set-context", "--current", "--namespace", "shop")
        made.apply(
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("shop", "situate")),
            a_node("spot-1", "spot"),
            a_node("spot-2", "spot", instance_type="c5"),
            a_workload("Deployment", "web", 6, {ON_DEMAND: "4"}),
            a_workload("StatefulSet", "db", 3),
            a_workload("Deployment", "api", 2, {ON_DEMAND: "many", "spotalis.io/min-on-demand": "1"}),
        )
        eventually("the shop is open", made.ready, lambda count: count == PODS)
        made.apply(a_node("od-1", "on-demand", cpu="2"), a_record(f"{uid_of(made, 'api')} default\n"))
        yield made
    finally:
        server.stop()


def a_node(name: str, capacity: str, cpu: str = "4", instance_type: str = "m5") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    labels = {
        "node.kubernetes.io/capacity": capacity,
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": "a",
    }
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def a_workload(kind: str, name: str, replicas: int, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    of_set = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations or {}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **of_set},
    }


@pytest.mark.rule("spot:B29", "spot:B47", "spot:B24")
def test_status_shows_floors_nodes_money_and_room(playground: Playground) -> None:
    found = playground.data("status")
    shown = {each["name"]: each for each in found["workloads"]}
    assert {name: (each["target"], each["onDemand"], each["spot"]) for name, each in shown.items()} == {
        "api": (0, 0, 2),
        "db": (2, 0, 3),
        "web": (4, 0, 6),
    }
    assert shown["web"]["policySource"] == f"annotation {ON_DEMAND} of the Deployment"
    assert [(each["node"], each["capacity"], each["pods"]) for each in found["nodes"]] == [
        ("od-1", "on-demand", 0),
        ("spot-1", "spot", 6),
        ("spot-2", "spot", 5),
    ]
    cost = found["cost"]
    assert (cost["saving"], cost["achievable"]) == (0.7, pytest.approx(0.7 * 5 / 11, abs=1e-4))
    assert (cost["assumedDiscount"], cost["pricesOf"], cost["nodesPerHour"]) == (0.7, "", None)
    assert all(line["discountIsAssumed"] for line in cost["workloads"])
    room = found["headroom"]
    assert (room["displaced"], room["fit"], room["missing"]) == (11, 4, 7)


def test_status_for_people(playground: Playground) -> None:
    code, told, remarks = playground.run("status")
    assert code == 0
    lines = told.splitlines()
    assert lines[0] == "1 of 3 workloads have the on-demand Pods they ask for; no leader"
    assert lines[1].split()[:4] == ["WORKLOAD", "PHASE", "REPLICAS", "TARGET"]
    assert "no prices are known, so spot is assumed to cost 70% less than on demand" in told
    assert "on-demand nodes fit 4 of 11 Pods, 7 would wait" in told
    assert "InvalidPolicy" in told
    installed = (
        "spot is not installed in namespace situate: Lease situate-spot does not exist; --installation-namespace"
    )
    assert installed in remarks
    _, wide, _ = playground.run("status", "-o", "wide", "-n", "shop")
    assert "POLICY-FROM" in wide
    assert "m5/a" in wide
    assert playground.data("status", "-n", "elsewhere")["workloads"] == []


@pytest.mark.finding("N30")
def test_of_kinds_that_the_cluster_lacks_only_those_are_named_that_the_settings_name(playground: Playground) -> None:
    """The embedded server serves neither ResourceQuotas nor Rollouts."""
    _, _, usual = playground.run("status")
    assert "does not serve" not in usual
    _, _, further = playground.run("status", "--set", "spot.ownerKinds=[Deployment, Rollout]")
    (said,) = [line for line in further.splitlines() if "does not serve" in line]
    assert said.startswith("situate: the cluster does not serve rollouts.argoproj.io, so they count as none")


@pytest.mark.finding("N14")
@pytest.mark.rule("spot:B32", "spot:S30")
def test_explain_tells_who_says_what_and_what_would_stay(playground: Playground) -> None:
    found = playground.data("explain", "shop/web", code=1)
    assert (found["target"], found["need"], found["moves"]) == (4, 4, 4)
    assert found["ifAllSpotEnded"] == {
        "stay": 0,
        "of": 6,
        "outageSeconds": 80.0,
        "secondsUnderQuorum": 80.0,
        "fitOnDemand": 4,
    }
    assert sorted(each["turn"] or 9 for each in found["pods"]) == [1, 2, 3, 4, 9, 9]
    assert {each["countsAs"] for each in found["pods"]} == {"spot"}
    assert found["nextClass"] == "on-demand"
    one = playground.data("explain", "db-1", "-n", "shop", code=1)
    assert playground.data("explain", "pod/db-1", "-n", "shop", code=1)["pods"] == one["pods"]
    for name in ("deployment/web", "deploy/web", "deployments.apps/web"):
        assert playground.data("explain", name, "-n", "shop", code=1)["target"] == 4
    assert [each["name"] for each in one["pods"]] == ["db-1"]
    at_fault = playground.data("explain", "deployment/shop/api")
    assert at_fault["faults"][0].startswith(f'Deployment shop/api: {ON_DEMAND}: found "many", allowed: a number')
    code, told, _ = playground.run("explain", "shop/web")
    assert code == 1
    ended = "0 of 6 stay, 80 s outage, 80 s under quorum; on-demand nodes fit 4 of the other 6"
    assert f"if all spot nodes ended now: {ended}" in told


@pytest.mark.finding("N20")
@pytest.mark.rule("spot:P11", "spot:B31", "spot:B32")
def test_the_commands_go_by_the_last_valid_value_that_the_leader_has_recorded(playground: Playground) -> None:
    def shown() -> Any:
        return next(each for each in playground.data("status")["workloads"] if each["name"] == "api")

    assert (shown()["target"], shown()["policy"], shown()["policySource"]) == (0, "default", "the last valid value")
    try:
        playground.apply(a_record(f"{uid_of(playground, 'api')} 1\n"))
        assert (shown()["target"], shown()["policy"], shown()["policySource"]) == (1, "1", "the last valid value")
        assert playground.data("explain", "shop/api", code=1)["target"] == 1
        found = playground.data("plan", "--set", "spot.autoscaling=true")
        assert found["restarts"]["Deployment shop/api"] == 1
        (notice,) = (each for each in found["notices"] if each["object"] == "Deployment shop/api")
        assert notice["message"].endswith("the last valid value, 1, stays in force until it is corrected")
        playground.apply(a_record(""))
        assert (shown()["target"], shown()["blocked"]) == (2, "InvalidPolicy")
        unmoved = playground.data("plan", "--set", "spot.autoscaling=true", code=1)
        assert unmoved["blocked"] == {"Deployment shop/api": "InvalidPolicy"}
        assert "Deployment shop/api" not in unmoved["restarts"]
    finally:
        playground.apply(a_record(f"{uid_of(playground, 'api')} default\n"))


def a_record(text: str) -> dict[str, Any]:
    """As the leader keeps it."""
    metadata = {"name": POLICIES, "namespace": "situate"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}


def uid_of(playground: Playground, deployment: str) -> str:
    return playground.kubectl("get", "deployment", deployment, "-n", "shop", "-o", "jsonpath={.metadata.uid}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("web", "-n", "default"), "default/web: workload or Pod not found"),
        (("wep",), "shop/wep: workload or Pod not found; did you mean web?"),
        (("statefulset/shop/web",), "shop/web: workload or Pod not found"),
        (("deployment/wep",), "shop/wep: workload or Pod not found"),
        (
            ("job/web", "-n", "shop"),
            'job/web: found type "job", allowed: deployment, statefulset, rollout, cloneset, pod',
        ),
    ],
)
def test_what_is_not_there_is_a_sentence(playground: Playground, arguments: tuple[str, ...], said: str) -> None:
    code, told, error = playground.run("explain", *arguments)
    assert (code, told) == (2, "")
    assert said in error


@pytest.mark.rule("spot:B31")
def test_plan_lists_the_moves_that_there_is_room_for_and_what_stays_short(playground: Playground) -> None:
    found = playground.data("plan", code=1)
    assert [(each["workload"], each["reason"], each["to"]) for each in found["moves"]] == [
        ("Deployment shop/web", "repair", "od-1"),
        ("StatefulSet shop/db", "repair", "od-1"),
        ("Deployment shop/web", "repair", "od-1"),
        ("StatefulSet shop/db", "repair", "od-1"),
    ]
    assert found["restarts"] == {"Deployment shop/web": 2, "StatefulSet shop/db": 2}
    assert found["blocked"] == {"Deployment shop/web": "NoOnDemandRoom"}
    assert (found["costShareBefore"], found["assumedDiscount"]) == (pytest.approx(0.3), 0.7)
    elsewhere = playground.data("plan", "-n", "elsewhere")
    assert (elsewhere["moves"], elsewhere["restarts"], elsewhere["blocked"]) == ([], {}, {})
    assert elsewhere["onDemandRoomNeeded"] == found["onDemandRoomNeeded"]
    grown = playground.data("plan", "--set", "spot.autoscaling=true")
    assert len(grown["moves"]) == 6
    assert "a new on-demand node" in {each["to"] for each in grown["moves"]}
    nobody = playground.data("plan", "--set", "spot.mode=disabled")
    assert (nobody["moves"], nobody["blocked"]) == ([], {})


@pytest.mark.rule("spot:B43", "spot:S18")
def test_plan_compares_with_other_means_and_names_keys_that_nobody_reads(playground: Playground) -> None:
    code, told, _ = playground.run("plan", "--compare", "-o", "wide")
    assert code == 1
    rows = [line.split() for line in told.splitlines() if "shop/db" in line and "spread constraints" in line]
    assert rows[0][4:7] == ["2", "3", "1"]
    assert "Deployment shop/api has spotalis.io/min-on-demand, which spot ignores" in told
    read = playground.data("plan", "--set", "spot.importKeys=true", code=1)
    assert read["unreadKeys"] == []
    comparison = {(each["workload"], each["name"]): each["on_demand"] for each in read["comparison"]}
    assert comparison["Deployment shop/web", "situate"] == 4


@pytest.mark.rule("spot:B24")
def test_balloons_hold_the_room_that_is_missing(playground: Playground) -> None:
    code, told, _ = playground.run("plan", "--balloons")
    assert code == 0
    objects = list(yaml.safe_load_all(told))
    assert [each["kind"] for each in objects] == list(BALLOON_PARTS)
    assert objects[0]["value"] == -10
    assert objects[1]["spec"]["replicas"] == 7
    (container,) = objects[1]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m"}
    playground.kubectl("apply", "--dry-run=server", "-f", "-", given=told)


@pytest.mark.rule("spot:B47", "spot:B29")
def test_prices_of_a_file_or_a_configmap_and_what_is_wrong_with_them(playground: Playground, tmp_path: Path) -> None:
    prices = [
        {"instanceType": "m5", "onDemand": 0.10, "spot": 0.04},
        {"instanceType": "c5", "onDemand": 0.20, "spot": -1},
    ]
    (tmp_path / "prices.yaml").write_text(yaml.safe_dump({"date": "2026-11-01", "currency": "EUR", "prices": prices}))
    document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "spot": {"prices": {"file": "prices.yaml"}}}
    file = tmp_path / "situate.yaml"
    file.write_text(yaml.safe_dump(document))
    cost = playground.data("status", "-f", str(file))["cost"]
    assert (cost["pricesOf"], cost["currency"], cost["assumedDiscount"]) == ("2026-11-01", "EUR", None)
    assert cost["nodesPerHour"] == pytest.approx(0.14)
    assert cost["nodesOnDemandPerHour"] == pytest.approx(0.20)
    assert cost["unpricedInstanceTypes"] == ["c5"]
    (mistake,) = cost["priceMistakes"]
    assert mistake.startswith("prices.yaml.prices[1].spot: found -1")
    _, told, _ = playground.run("status", "-f", str(file))
    assert "nodes: 0.14 EUR an hour, all on demand 0.20; prices of 2026-11-01" in told
    metadata = {"name": "prices", "namespace": "shop"}
    text = (tmp_path / "prices.yaml").read_text()
    playground.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"prices.yaml": text}})
    from_map = playground.data("status", "--set", "spot.prices.configMap=shop/prices")["cost"]
    assert from_map["nodesPerHour"] == cost["nodesPerHour"]
    missing = playground.data("status", "--set", "spot.prices.configMap=shop/nothing")["cost"]
    assert missing["assumedDiscount"] == 0.7
    assert "ConfigMap shop/nothing" in missing["priceMistakes"][0]


@pytest.mark.rule("spot:B44", "spot:B24", "spot:S31")
def test_what_the_leader_has_recorded_is_the_advisers_ground(playground: Playground) -> None:
    recorded = InterruptionHistory(1_700_000_000.0, (Wave(1_750_000_000.0, 1_750_000_060.0, 1, 2, {"m5/a": 1}),))
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": "situate"},
    }
    lease["metadata"]["annotations"] = {INTERRUPTIONS_ANNOTATION: to_text(recorded)}  # type: ignore[index]
    playground.apply({**lease, "spec": {"holderIdentity": "situate-spot-1_x"}})
    try:
        found = playground.data("plan", code=1)
        advised = {each["workload"]: (each["asked"], each["on_demand"]) for each in found["advice"]}
        assert advised == {"Deployment shop/web": (4, 0), "StatefulSet shop/db": (2, 1), "Deployment shop/api": (0, 0)}
        assert (found["headroom"]["largestWave"], found["headroom"]["displaced"]) == (1, 6)
        _, told, _ = playground.run("status")
        assert "led by situate-spot-1_x" in told
        assert "the worst took 1 of 2 spot nodes" in told
    finally:
        playground.kubectl("delete", "lease", NAME, "-n", "situate")


@pytest.mark.rule("spot:P9", "spot:P7")
def test_ungate_lets_pods_go_and_takes_no_other_gate_away(playground: Playground) -> None:
    assert playground.run("ungate", "-A")[1] == "no Pod waits behind the gate of spot\n"

    def gates() -> dict[str, list[str]]:
        pods = json.loads(playground.kubectl("get", "pods", "-n", "situate", "-o", "json"))["items"]
        return {
            pod["metadata"]["name"]: [gate["name"] for gate in pod["spec"].get("schedulingGates", [])] for pod in pods
        }

    for name, wanted in (("alone", [GATE]), ("held", ["example.com/other", GATE])):
        spec = {"containers": [{"name": "c", "image": "x"}], "schedulingGates": [{"name": gate} for gate in wanted]}
        metadata = {"name": name, "namespace": "situate"}
        playground.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    try:
        would = playground.data("ungate", "-A", "--dry-run")
        assert would["dryRun"] is True
        assert [(each["pod"], each["result"]) for each in would["pods"]] == [
            ("situate/alone", "would be let go"),
            ("situate/held", "would be let go"),
        ]
        told = "no Pod waits behind the gate of spot in namespace shop; -A searches all namespaces\n"
        assert playground.run("ungate")[1] == playground.run("ungate", "-n", "shop")[1] == told
        code, _, error = playground.run("ungate", "-A", "-n", "shop")
        assert (code, "leave one of them out" in error) == (2, True)
        assert gates() == {"alone": [GATE], "held": ["example.com/other", GATE]}, "nothing was written"
        done = playground.data("ungate", "-n", "situate")
        assert (done["letGo"], done["failed"]) == (2, 0)
        assert gates() == {"alone": [], "held": ["example.com/other"]}
        assert playground.data("ungate", "-A")["pods"] == []
    finally:
        playground.kubectl("delete", "pods", "alone", "held", "-n", "situate", "--now")


@pytest.mark.rule("spot:B31")
def test_without_a_file_the_settings_are_those_of_the_installation(playground: Playground, tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    header = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate"}
    file.write_text(yaml.safe_dump({**header, "spot": {"readOnly": True, "autoscaling": True}}))
    for product in (("spot",), ()):
        printed = CliRunner().invoke(
            app, ["manifests", *product, "-f", str(file), "--installation-namespace", "situate"]
        )
        objects = yaml.safe_load_all(printed.stdout)
        wanted = [each for each in objects if each["kind"] in ("Deployment", "ConfigMap")]
        wanted = [each for each in wanted if each["metadata"]["name"] != POLICIES]
        for each in wanted:
            each.get("spec", {})["replicas"] = 0
        playground.apply(*wanted)
        names = [f"{each['kind']}/{each['metadata']['name']}" for each in wanted]
        try:
            assert playground.data("status")["readOnly"] is True
            assert len(playground.data("plan")["moves"]) == 6
            assert playground.data("status", "--set", "spot.readOnly=false")["readOnly"] is False
        finally:
            playground.kubectl("delete", "-n", "situate", *names)
    assert playground.data("status")["readOnly"] is False


EXAMPLE = Path(__file__).parents[3] / "examples" / "spot-cluster.yaml"


def offline(*arguments: str, objects: Path = EXAMPLE) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["spot", *arguments, "--objects", str(objects)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_a_list_is_about_one_namespace_and_its_sums_are_the_clusters(playground: Playground) -> None:
    """The context's is shop."""
    _, here, _ = playground.run("status")
    assert here == playground.run("status", "-n", "shop")[1] == playground.run("status", "-A")[1]
    _, elsewhere, _ = playground.run("status", "-n", "situate")
    assert elsewhere.splitlines()[0] == here.splitlines()[0]
    assert "shop/" not in elsewhere.partition("nodes:")[0]
    assert "not listed: 3 workloads in namespaces other than situate; -A lists all" in elsewhere
    assert "not listed: 4 moves in namespaces other than situate" in playground.run("plan", "-n", "situate")[1]
    for verb in ("status", "plan"):
        code, told, error = playground.run(verb, "-A", "-n", "shop")
        assert (code, told) == (2, "")
        assert "-A lists all namespaces, and -n shop only one" in error


@pytest.mark.parametrize("verb", ["status", "plan", "explain shop/web", "explain web", "explain pod/shop/db-0"])
def test_files_tell_what_their_cluster_tells(playground: Playground, tmp_path: Path, verb: str) -> None:
    kinds = "nodes,pods,deployments,replicasets,statefulsets,namespaces,configmaps,leases,services"
    (tmp_path / "cluster.json").write_text(playground.kubectl("get", kinds, "-A", "-o", "json"))
    arguments = [*verb.split(), *(("-n", "shop") if verb == "explain web" else ()), "-o", "json"]
    code, asked, _ = playground.run(*arguments)
    ended, read, _ = offline(*arguments, objects=tmp_path)
    assert ended == code
    told = [json.loads(each) for each in (asked, read)]
    for each in told:  # a server says which kinds it does not serve, files cannot
        assert each.pop("remarks")
    assert told[0] == told[1]
    assert "web" in read or "db" in read


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("plan",), 1, id="two workloads are blocked"),
        pytest.param(("plan", "-n", "shop"), 1, id="one of this namespace"),
        pytest.param(("plan", "-n", "elsewhere"), 0, id="none of this namespace"),
        pytest.param(("plan", "--set", "spot.autoscaling=true"), 0, id="nodes can be added"),
        pytest.param(("plan", "--set", "spot.mode=disabled"), 0, id="none is managed"),
        pytest.param(("explain", "shop/web"), 1, id="below its floor"),
        pytest.param(("explain", "shop/web", "--set", "spot.mode=disabled"), 0, id="not managed"),
        pytest.param(("status",), 0, id="a status says what is"),
        pytest.param(("explain", "web"), 2, id="files have no context, so it is default/web"),
        pytest.param(("explain", "web", "-n", "shop"), 1, id="found by -n"),
    ],
)
def test_how_commands_end(arguments: tuple[str, ...], code: int) -> None:
    ended, _, error = offline(*arguments)
    assert ended == code, error


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The example after a function has changed each object."""
    listing = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    for item in listing["items"]:
        change(item)
    file = folder / "changed.json"
    file.write_text(json.dumps(listing))
    return file


def test_it_ends_with_1_for_a_pod_that_waits_and_with_0_if_nothing_is_left_over(tmp_path: Path) -> None:
    def content(item: dict[str, Any]) -> None:
        if item["kind"] in ("Deployment", "StatefulSet"):
            item["metadata"]["annotations"] = {ON_DEMAND: "1" if item["metadata"]["namespace"] == "shop" else "0"}

    file = changed(tmp_path, content)
    for verb in ("plan", "explain shop/web", "explain billing/api"):
        assert offline(*verb.split(), objects=file)[0] == 0

    def waits(item: dict[str, Any]) -> None:
        content(item)
        if item["metadata"]["name"] == "web-6c9f7-ddddd":
            del item["spec"]["nodeName"], item["status"]

    file = changed(tmp_path, waits)
    code, told, _ = offline("plan", objects=file)
    assert (code, "1 Pod would have no node: shop/web-6c9f7-ddddd" in told) == (1, True)
    assert json.loads(offline("plan", "-o", "json", objects=file)[1])["withoutNode"] == ["shop/web-6c9f7-ddddd"]
    assert offline("plan", "-n", "billing", objects=file)[0] == 0
    assert [offline("explain", each, objects=file)[0] for each in ("shop/web", "shop/db")] == [1, 0]


def test_too_many_on_demand_and_no_way_back_is_a_blocked_move(tmp_path: Path) -> None:
    def less(item: dict[str, Any]) -> None:
        if item["kind"] in ("Deployment", "StatefulSet"):
            item["metadata"]["annotations"] = {ON_DEMAND: "0" if item["metadata"]["name"] == "web" else "all-spot"}
        if item["metadata"]["name"].startswith("spot-"):
            item["status"]["allocatable"]["cpu"] = "2"  # four Pods of 500m fill it

    file = changed(tmp_path, less)
    code, told, _ = offline("explain", "shop/web", objects=file)
    assert "1 Pod too many on demand" in told
    assert (code, "no move now:" in told) == (1, True)
    assert offline("explain", "billing/api", objects=file)[0] == 0


def test_the_installation_is_looked_for_in_its_own_namespace(tmp_path: Path) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": "platform"},
        "spec": {"holderIdentity": "pod-1"},
    }
    (tmp_path / "lease.json").write_text(json.dumps(lease))
    more = ("--objects", str(tmp_path / "lease.json"))
    assert "no leader" in offline("status", *more)[1]
    _, told, remarks = offline("status", *more, "--installation-namespace", "platform")
    assert "led by pod-1" in told
    assert remarks == ""


class _Refusing(BaseHTTPRequestHandler):
    """Knows who asks, and allows nothing."""

    def do_GET(self) -> None:
        resource = self.path.partition("?")[0].rpartition("/")[2]
        message = f'{resource} is forbidden: User "eve" cannot list resource "{resource}" in API group ""'
        body = json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}).encode()
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_each_missing_permission_is_a_sentence(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        made = Playground(tmp_path)
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        document = {
            "current-context": "c",
            "clusters": [cluster],
            "contexts": [context],
            "users": [{"name": "u", "user": {}}],
        }
        made.kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
        for verb in (("status",), ("plan",), ("explain", "shop/web")):
            code, told, error = made.run(*verb)
            assert (code, told) == (3, "")
            needed = [line for line in error.splitlines() if "so nothing can be counted" in line]
            assert [line.split()[5].rstrip(",") for line in needed] == [
                "pods",
                "replicasets.apps",
                "deployments.apps",
                "statefulsets.apps",
                "nodes",
            ]
            assert all("grant the permission" in line for line in needed)
        code, told, error = made.run("ungate")
        assert (code, told) == (3, "")
        assert "cannot list pods" in error
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_without_the_section_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text("apiVersion: situate.dev/v1alpha1\nkind: Situate\nscheduler: {}\n")
    result = CliRunner().invoke(app, ["spot", "status", "-f", str(file)])
    assert result.exit_code == 2
    assert "no spot section" in result.stderr

"""`situate vpod status|explain|plan` on the objects of a file: what they print, and how they end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples" / "knative"
SITUATE, CLUSTER = EXAMPLES / "situate.yaml", EXAMPLES.with_name("vpod-cluster.yaml")
POD = "kafka-source-dispatcher"
STATEFULSET = f"knative-eventing/{POD}"
BOMB = b"".join(b"%c: &%c [%s]\n" % (each, each, b",".join([b"*%c" % (each - 1)] * 10)) for each in b"bcdefghi")
HOSTILE = "[/x][red]\x1b[2J\u202e"


def vpod(verb: str, *arguments: str, file: Path = SITUATE, objects: Path = CLUSTER) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["vpod", verb, *arguments, "-f", str(file), "--objects", str(objects)])
    return result.exit_code, result.stdout, result.stderr


def data(verb: str, *arguments: str, code: int = 0, objects: Path = CLUSTER) -> Any:
    """What is printed as JSON; YAML says the same."""
    ended, as_json, told = vpod(verb, *arguments, "-o", "json", objects=objects)
    assert ended == code, told
    _, as_yaml, _ = vpod(verb, *arguments, "-o", "yaml", objects=objects)
    found = json.loads(as_json)
    assert yaml.safe_load(as_yaml) == found
    return found


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """The example's objects, after a function has changed each."""

    def make(change: Callable[[dict[str, Any]], None]) -> Path:
        listing = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
        for item in listing["items"]:
            change(item)
        file = tmp_path / "changed.yaml"
        file.write_text(yaml.safe_dump(listing), encoding="utf-8")
        return file

    return make


@pytest.mark.rule("vpod:V20", "vpod:B13")
def test_status_shows_pods_and_vpods() -> None:
    (found,) = data("status")
    assert (found["statefulSet"], found["replicas"], found["wanted"], found["placed"]) == (STATEFULSET, 2, 42, 12)
    assert [(pod["name"], pod["class"], pod["used"]) for pod in found["pods"]] == [
        (f"{POD}-0", "accept", 6),
        (f"{POD}-1", "accept", 6),
    ]
    assert [(each["key"], each["wanted"], each["placed"]) for each in found["vpods"]] == [
        ("shop/orders", 12, 12),
        ("billing/payments", 30, 0),
    ]


def test_status_as_a_table_shows_nodes_and_placements_when_wide() -> None:
    _, narrow, _ = vpod("status")
    _, wide, _ = vpod("status", "-o", "wide")
    assert cells(narrow)[1] == ["POD", "CLASS", "CAUSE", "USED", "CAPACITY", "SOURCES"]
    assert cells(narrow)[2] == [f"{POD}-0", "accept", "ok", "6", "20", "1"]
    assert cells(wide)[2][-3:] == ["node-0", "shop/orders:", "6"]


@pytest.mark.rule("vpod:B13")
def test_explain_tells_pod_by_pod_and_what_comes_next() -> None:
    found = data("explain", "billing/payments", code=1)
    assert (found["wanted"], found["placed"], found["left"]) == (30, 0, 2)
    assert found["shortage"] == "0/2 pods can take 2 more: 2 full"
    assert found["autoscaler"] == "3 pods are needed and 2 requested: scales up to 3"
    assert [(pod["class"], pod["cause"], pod["own"], pod["then"]) for pod in found["pods"]] == [
        ("accept", "ok", 0, 14)
    ] * 2
    assert [(pod["free"], pod["freeThen"]) for pod in found["pods"]] == [(14, 0)] * 2
    assert found["placementsThen"] == [{"podName": f"{POD}-{ordinal}", "vreplicas": 14} for ordinal in (0, 1)]


@pytest.mark.rule("vpod:B13")
def test_explain_names_the_cause_of_each_pod(changed: Callable[..., Path]) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == f"{POD}-0":
            item["metadata"]["annotations"] = {"eventing.knative.dev/unschedulable": "true"}
        if item["metadata"]["name"] == "node-1":
            item["spec"] = {"unschedulable": True}

    found = data("explain", "billing/payments", code=1, objects=changed(spoil))
    assert found["counts"] == {"unschedulable": 1, "cordoned": 1}
    assert found["shortage"] == "0/2 pods can take 30 more: 1 cordoned, 1 unschedulable"
    assert [pod["class"] for pod in found["pods"]] == ["reject", "hold"]


@pytest.mark.rule("vpod:B13")
def test_explain_as_a_table() -> None:
    code, told, _ = vpod("explain", "shop/orders")
    assert code == 0
    lines = told.splitlines()
    assert lines[0] == "shop/orders wants 12 vreplicas, 12 are placed"
    assert cells(told)[1:3] == [
        ["POD", "CLASS", "CAUSE", "BEFORE", "AFTER", "FREE-BEFORE", "FREE-AFTER"],
        [f"{POD}-0", "accept", "ok", "6", "6", "14", "14"],
    ]
    assert lines[-1].startswith("autoscaler: 3 pods are needed")


@pytest.mark.finding("N14")
def test_explain_takes_a_type_and_a_name_as_kubectl_does() -> None:
    wanted = data("explain", "billing/payments", code=1)
    group = "consumergroups.internal.kafka.eventing.knative.dev"
    for name in ("consumergroup/payments", "ConsumerGroups/payments", f"{group}/payments", "payments"):
        assert data("explain", name, "-n", "billing", code=1) == wanted
    assert data("explain", "consumergroup/billing/payments", code=1) == wanted
    code, _, told = vpod("explain", "pod/payments", "-n", "billing")
    assert code == 2
    assert 'pod/payments: found type "pod", allowed: consumergroup; name the object as NAMESPACE/NAME' in told
    code, _, told = vpod("explain", "consumergroup/payments")
    assert code == 2
    assert "consumergroup/payments: source not found" in told


@pytest.mark.finding("N4")
def test_a_vreplica_that_is_larger_than_any_pod_is_said_so_once(changed: Callable[..., Path]) -> None:
    def weigh(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "payments":
            item["metadata"]["annotations"] = {"vpod.situate.dev/weight": "21"}

    objects = changed(weigh)
    code, told, _ = vpod("explain", "billing/payments", objects=objects)
    assert code == 1
    assert "full" not in told
    assert told.count("21") == 1
    assert "WeightExceedsCapacity: a vreplica of weight 21 is larger than any pod, because podCapacity is 20" in told
    assert data("explain", "billing/payments", code=1, objects=objects)["counts"] == {"too small": 2}


@pytest.mark.rule("vpod:B13")
def test_plan_is_what_would_be_written(changed: Callable[..., Path]) -> None:
    (found,) = data("plan", code=1)
    assert (found["replicas"], found["needed"], found["replicasThen"]) == (2, 3, 3)
    orders, payments = found["vpods"]
    assert (orders["change"], orders["why"]) == ("", "")
    assert payments["change"] == f"{POD}-0 +14, {POD}-1 +14"
    assert payments["why"] == "0/2 pods can take 2 more: 2 full"

    def write(item: dict[str, Any]) -> None:
        for planned in (orders, payments):
            if item["metadata"]["name"] == planned["key"].partition("/")[2]:
                item["status"] = {"placements": planned["placements"]}
        if item["kind"] == "StatefulSet":
            item["spec"]["replicas"] = found["replicasThen"]

    (after,) = data("plan", code=1, objects=changed(write))
    assert [(each["now"], each["then"], each["left"], each["change"]) for each in after["vpods"]] == [
        (12, 12, 0, ""),
        (28, 28, 2, ""),  # the third pod has no node yet
    ]
    assert after["replicasThen"] == 3


@pytest.mark.rule("vpod:B13")
def test_plan_as_a_table_says_why() -> None:
    code, narrow, _ = vpod("plan")
    _, wide, _ = vpod("plan", "-o", "wide")
    assert code == 1, "two vreplicas are left over"
    assert narrow.splitlines()[0] == f"StatefulSet {STATEFULSET}: 2 replicas now, 3 would be requested at once"
    assert cells(narrow)[1] == ["SOURCE", "WANTED", "NOW", "THEN", "LEFT", "CHANGE"]
    assert cells(narrow)[2] == ["shop/orders", "12", "12", "12", "0", "none"]
    assert narrow.splitlines()[-1] == "billing/payments: 0/2 pods can take 2 more: 2 full"
    assert cells(wide)[3][-2:] == [f"{POD}-1:", "14"]


@pytest.mark.finding("V1")
def test_plan_returns_spare_copies_to_a_source_that_is_short(tmp_path: Path) -> None:
    listing = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    for item in listing["items"]:
        if item["kind"] == "ConsumerGroup":
            placements = [{"podName": f"{POD}-{ordinal}", "vreplicas": 1} for ordinal in (0, 1)]
            item["spec"]["replicas"] = 1
            item["status"] = {"placements": placements} if item["metadata"]["name"] == "orders" else {}
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump(listing), encoding="utf-8")
    settings = ("podCapacity=1", "minReplicas=2", "maxReplicas=2")
    (found,) = data("plan", *(word for each in settings for word in ("--set", f"vpod[0].{each}")), objects=objects)
    assert [(each["then"], each["left"], each["change"]) for each in found["vpods"]] == [
        (1, 0, f"{POD}-1 -1"),
        (1, 0, f"{POD}-1 +1"),
    ]


@pytest.mark.finding("N11", "A4")
def test_an_absurd_wish_meets_a_ceiling_by_default(changed: Callable[..., Path]) -> None:
    def exaggerate(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "payments":
            item["spec"]["replicas"] = 2**31 - 1

    objects = changed(exaggerate)
    (found,) = data("plan", code=1, objects=objects)
    assert (found["needed"], found["replicasThen"]) == (100, 12)
    why = "2147483647 vreplicas need 107374183 pods, but maxReplicas is 100"
    assert found["vpods"][1]["why"].endswith(why)
    _, told, _ = vpod("plan", objects=objects)
    assert told.splitlines()[0] == (
        f"StatefulSet {STATEFULSET}: 2 replicas now, 12 would be requested at once, and more step by step up to 100; "
        "107374183 are needed, maxReplicas is 100"
    )
    found = data("explain", "billing/payments", code=1, objects=objects)
    assert why in found["shortage"]
    assert "maxReplicas is 100: scales up to 12, in steps of 10 (maxScaleUpStep)" in found["autoscaler"]


@pytest.mark.parametrize("verb", ["status", "plan"])
def test_a_list_of_one_namespace_says_what_it_leaves_out(verb: str) -> None:
    shown = {
        chosen: {row["key"] for row in data(verb, *chosen, code=int(verb == "plan" and "-n" not in chosen))[0]["vpods"]}
        for chosen in ((), ("-A",), ("-n", "shop"))
    }
    assert shown == {(): shown[("-A",)], ("-A",): {"shop/orders", "billing/payments"}, ("-n", "shop"): {"shop/orders"}}
    _, table, _ = vpod(verb, "-n", "shop")
    assert table.splitlines()[-1] == "not listed: 1 source in namespaces other than shop; -A lists all"


def test_objects_may_come_from_several_files_and_a_folder(tmp_path: Path) -> None:
    items = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))["items"]
    folder, file = tmp_path / "objects", tmp_path / "nodes.json"
    folder.mkdir()
    for number, item in enumerate(item for item in items if item["kind"] != "Node"):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(item), encoding="utf-8")
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [i for i in items if i["kind"] == "Node"]})
    )
    assert data("plan", "--objects", str(file), code=1, objects=folder) == data("plan", code=1)


def test_plan_with_other_settings() -> None:
    (found,) = data("plan", "--set", "vpod[0].podCapacity=30")
    assert (found["needed"], found["replicasThen"]) == (2, 2)
    assert [each["left"] for each in found["vpods"]] == [0, 0]


@pytest.mark.rule("vpod:V17", "vpod:B13")
def test_plan_follows_the_predicates_of_the_configmaps(tmp_path: Path) -> None:
    policies = [each for each in yaml.safe_load_all((EXAMPLES / "configmaps.yaml").read_text(encoding="utf-8")) if each]
    for each in policies:
        if each["metadata"]["name"] == "config-kafka-scheduler":
            each["data"]["predicates"] = json.dumps([{"Name": "NoMaxResourceCount", "Args": '{"NumPartitions": 1}'}])
    settings = tmp_path / "situate.yaml"
    settings.write_text(
        SITUATE.read_text(encoding="utf-8") + "  policy: policy\n  schedulerConfig: config-kafka-scheduler\n"
    )
    objects = tmp_path / "objects.yaml"
    objects.write_text(CLUSTER.read_text(encoding="utf-8") + "---\n" + yaml.safe_dump_all(policies))
    code, told, problem = vpod("plan", "-o", "json", file=settings, objects=objects)
    assert code == 1, problem
    payments = json.loads(told)[0]["vpods"][1]
    assert len(payments["placements"]) == 1  # one pod at most, as the predicate says


@pytest.mark.rule("vpod:B13")
@pytest.mark.parametrize("verb", ["status", "plan", "explain"])
def test_the_pod_that_blocks_an_ordered_set_is_named(changed: Callable[..., Path], verb: str) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["kind"] == "StatefulSet":
            item["spec"]["replicas"] = 5
        if item["metadata"]["name"] == f"{POD}-1":
            del item["spec"]["nodeName"]
            item["status"] = {"phase": "Pending"}

    arguments = (verb, "shop/orders") if verb == "explain" else (verb,)
    _, told, _ = vpod(*arguments, objects=changed(spoil))
    assert f"pod {POD}-1 is pending and blocks the creation of 3 pods above it" in told


@pytest.mark.finding("N9")
def test_a_statefulset_that_does_not_exist_is_said_to_be_missing(changed: Callable[..., Path]) -> None:
    def rename(item: dict[str, Any]) -> None:
        if item["kind"] == "StatefulSet":
            item["metadata"]["name"] = "another"

    objects = changed(rename)
    for arguments in (("status",), ("plan",), ("explain", "billing/payments"), ("explain", "shop/orders")):
        code, told, _ = vpod(*arguments, objects=objects)
        assert code == 1
        assert f"StatefulSet {STATEFULSET} does not exist: create it" in told
    (found,) = data("plan", code=1, objects=objects)
    assert found["exists"] is False


@pytest.mark.finding("N9")
def test_one_is_one(changed: Callable[..., Path]) -> None:
    def lessen(item: dict[str, Any]) -> None:
        if item["kind"] == "StatefulSet":
            item["spec"]["replicas"] = 1
        elif item["kind"] == "ConsumerGroup":
            item["spec"]["replicas"] = int(item["metadata"]["name"] == "orders")
            item["status"] = {}

    objects = changed(lessen)
    said = "\n".join(vpod(*verb, objects=objects)[1] for verb in (("status",), ("plan",), ("explain", "shop/orders")))
    for words in ("1 replica, 0 of 1 vreplica placed", "1 replica, as needed", "wants 1 vreplica, 0 are placed"):
        assert words in said
    assert "1 pod is needed and 1 requested: stays" in said
    assert not re.search(r"\b1 (pods|replicas|vreplicas)\b", said)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("explain", "orders"), "orders: source not found in namespace default", id="no namespace"),
        pytest.param(("plan", "-A", "-n", "shop"), "-A lists all namespaces, and -n shop only one", id="-A and -n"),
        pytest.param(("explain", "shop/"), "shop/: name the object as NAMESPACE/NAME", id="no name"),
        pytest.param(("explain", ""), '"": name the object as NAMESPACE/NAME', id="nothing"),
        pytest.param(("plan", "--statefulset", ""), '--statefulset: found "", allowed: ', id="no entry's name"),
        pytest.param(
            ("explain", "shop/none"),
            "shop/none: source not found; `situate vpod status -A` lists all",
            id="no such source",
        ),
        pytest.param(("plan", "--statefulset", "a/b"), f"situate.yaml: {STATEFULSET}", id="no such entry"),
        pytest.param(("plan", "--set", "vpod[0].podCapacity=no"), "vpod[0].podCapacity", id="a wrong setting"),
        pytest.param(("status", "--set", "nonsense"), "allowed: path=value", id="no assignment"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments: tuple[str, ...], expected: str) -> None:
    code, out, told = vpod(*arguments)
    assert (code, out) == (2, "")
    assert expected in told
    assert "Traceback" not in told


@pytest.mark.rule("vpod:B12")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "cannot be read", id="absent"),
        pytest.param(b"a: [", "YAML", id="no YAML"),
        pytest.param(b"\xff\xfe", "byte 0 is not UTF-8", id="binary"),
        pytest.param(b"[" * 100_000, "too many levels", id="deep"),
        pytest.param(b"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + BOMB, "when expanded", id="a bomb"),
    ],
)
def test_objects_that_cannot_be_read_are_told(tmp_path: Path, text: bytes | None, expected: str) -> None:
    file = tmp_path / "objects.yaml"
    if text is not None:
        file.write_bytes(text)
    code, _, told = vpod("plan", objects=file)
    assert code == 2
    assert f"--objects {file}" in told
    assert expected in told


@pytest.mark.rule("vpod:B12")
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": 3}, id="metadata"),
        pytest.param({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "\ud800"}}, id="half a character"),
        pytest.param({"apiVersion": "v1", "kind": "Node", "spec": {"taints": {}}}, id="taints"),
    ],
)
def test_one_object_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path, wrong: dict[str, Any]) -> None:
    listing = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    listing["items"].insert(0, wrong)
    file = tmp_path / "objects.json"
    file.write_text(json.dumps(listing), encoding="utf-8")
    code, told, complaint = vpod("plan", "-o", "json", objects=file)
    assert code == 1
    assert "left out" in complaint
    assert [each["key"] for each in json.loads(told)[0]["vpods"]] == ["shop/orders", "billing/payments"]


@pytest.mark.rule("vpod:B12")
@pytest.mark.parametrize("verb", ["status", "plan", "explain"])
@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_what_somebody_wrote_into_a_status_is_shown_and_not_obeyed(
    changed: Callable[..., Path], verb: str, form: str
) -> None:
    def write(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "orders":
            item["metadata"]["annotations"] = {"vpod.situate.dev/weight": HOSTILE}
            entries = [{"podName": HOSTILE, "vreplicas": 3}, {"podName": 7}, {"podName": f"{POD}-1", "vreplicas": -1}]
            item["status"]["placements"] += entries

    arguments = (verb, "shop/orders") if verb == "explain" else (verb,)
    code, told, complaint = vpod(*arguments, "-o", form, objects=changed(write))
    assert code == (1 if verb == "plan" else 0), complaint
    assert "\x1b" not in told
    if form in ("table", "wide") and (verb, form) != ("plan", "table"):
        assert "[/x]" in told


@pytest.mark.rule("vpod:B12", "vpod:D11")
def test_an_absurd_number_of_replicas_is_not_listed_pod_by_pod(changed: Callable[..., Path]) -> None:
    def grow(item: dict[str, Any]) -> None:
        if item["kind"] == "StatefulSet":
            item["spec"]["replicas"] = 2**31 - 1

    code, told, _ = vpod("status", objects=changed(grow))
    assert code == 0
    assert f"and {2**31 - 1 - 1026} more pods, all missing" in told


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        pytest.param("pingsource", "no scheduler found for 'pingsource'", id="nobody's"),
        pytest.param(None, "no scheduler found for None", id="no label"),
        pytest.param("Trigger", "StatefulSet kafka-broker-dispatcher runs that kind", id="another set's"),
    ],
)
def test_explain_says_why_an_object_is_nobody_s_vpod(changed: Callable[..., Path], kind: str | None, why: str) -> None:
    def label(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "orders":
            item["metadata"]["labels"] = {"kafka.eventing.knative.dev/metadata.kind": kind} if kind else {}

    code, _, told = vpod("explain", "shop/orders", objects=changed(label))
    assert code == 2
    assert told.startswith("situate: shop/orders: ")
    assert why in told


def test_a_server_that_does_not_answer_is_exit_code_3(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {
        "current-context": "c",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content), encoding="utf-8")
    arguments = ["vpod", "plan", "-f", str(SITUATE), "--kubeconfig", str(kubeconfig)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 3
    assert "http://127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1

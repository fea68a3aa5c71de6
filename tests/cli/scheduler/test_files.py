"""`situate scheduler explain|what-if|replay` on files: what they print, how they end, what they say of bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from tests.cli.vpod.test_files import BOMB, HOSTILE

EXAMPLES = Path(__file__).parents[3] / "examples" / "scheduler"
CLUSTER = EXAMPLES / "cluster.yaml"
RECORDING = EXAMPLES / "morning.jsonl"
KUBERNETES = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
SITUATE = "apiVersion: situate.dev/v1alpha1\nkind: Situate\n"


def scheduler(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["scheduler", *arguments])
    return result.exit_code, result.stdout, result.stderr


def data(*arguments: str, code: int = 0) -> Any:
    """What is printed as JSON; YAML says the same."""
    ended, as_json, told = scheduler(*arguments, "-o", "json")
    assert ended == code, told
    found = json.loads(as_json)
    assert yaml.safe_load(scheduler(*arguments, "-o", "yaml")[1]) == found
    return found


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], str]:
    """The example's objects as JSON, after a function has changed each; `--objects` of it."""

    def make(change: Callable[[dict[str, Any]], None]) -> str:
        listing = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
        for item in listing["items"]:
            change(item)
        file = tmp_path / "changed.json"
        file.write_text(json.dumps(listing), encoding="utf-8")
        return f"--objects={file}"

    return make


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """A file with this content."""

    def make(content: str) -> str:
        file = tmp_path / "written.yaml"
        file.write_text(content, encoding="utf-8")
        return str(file)

    return make


DUMP = f"--objects={CLUSTER}"


def test_explain_tells_plugins_nodes_and_the_least_change() -> None:
    found = data("explain", "shop/report-0", DUMP, code=1)
    assert (found["pod"], found["node"], found["nodes"], found["feasible"]) == ("shop/report-0", "", 6, 0)
    assert found["message"].startswith("0/6 nodes are available: ")
    refusing = {each["plugin"]: each["refuses"] for each in found["filter"] if each["refuses"]}
    assert refusing == {"NodeUnschedulable": 1, "TaintToleration": 2, "NodeResourcesFit": 3}
    assert sorted(node for group in found["groups"] for node in group["nodes"]) == [
        "gpu-a1",
        "gpu-b1",
        "node-a1",
        "node-a2",
        "node-b1",
        "node-c1",
    ]
    assert [each["kind"] for each in found["changes"]] == [
        "preemption",
        "uncordon",
        "room",
        "toleration",
        "toleration",
    ]
    assert found["changes"][0]["victims"] == ["shop/batch-0"]
    assert found["changes"][2]["room"] == {"cpu": 500}


def test_explain_tells_scores_of_a_pod_in_place() -> None:
    found = data("explain", "web-1", "-n", "shop", DUMP)
    assert (found["nodeNow"], found["node"], found["best"]) == ("node-b1", "node-b1", ["node-b1"])
    assert [each["node"] for each in found["scores"]] == ["node-b1", "node-a1", "node-c1"]
    for score in found["scores"]:
        assert score["total"] == sum(each["weighted"] for each in score["plugins"].values())
    assert found["changes"] == []


def test_wide_tables_leave_nothing_out() -> None:
    _, narrow, _ = scheduler("explain", "shop/web-1", DUMP)
    _, wide, _ = scheduler("explain", "shop/web-1", DUMP, "-o", "wide")
    assert "(raw 46, normalized 46)" in wide
    assert "(raw" not in narrow
    assert "CODE" in wide


def test_a_gate_is_told_first(changed: Callable[..., str]) -> None:
    def gate(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "report-0":
            item["spec"] |= {"schedulingGates": [{"name": "example.com/quota"}]}
            item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"

    code, told, _ = scheduler("explain", "shop/report-0", changed(gate))
    assert code == 0
    gated = "gated by SchedulingGates: waiting for scheduling gates: [example.com/quota]"
    assert told.splitlines()[1].startswith(gated)
    assert told.splitlines()[-1] == "- remove gate example.com/quota: 3 nodes"


def asking(name: str, cpu: str) -> Callable[[dict[str, Any]], None]:
    """Lets one Pod of the example ask for so much CPU."""

    def change(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == name:
            item["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu

    return change


@pytest.mark.finding("N15")
def test_a_request_beyond_every_node_is_told_as_that(changed: Callable[..., str]) -> None:
    code, told, _ = scheduler("explain", "shop/report-0", changed(asking("report-0", "100")))
    assert code == 1
    assert "- add a node with 100 cpu: larger than any node (8 cpu)" in told
    assert "lacks" not in told


UNREADABLE = "'10 m' is not a quantity"


@pytest.mark.finding("N3")
def test_explain_says_why_a_pod_cannot_be_read(changed: Callable[..., str]) -> None:
    code, _, told = scheduler("explain", "shop/report-0", changed(asking("report-0", "10 m")))
    assert code == 2
    assert told.startswith("situate: pods shop/report-0 cannot be read: spec.containers[0].resources.requests")
    assert UNREADABLE in told


@pytest.mark.finding("N3")
def test_a_pod_that_cannot_be_read_is_a_pod_that_finds_no_node(changed: Callable[..., str]) -> None:
    dump = changed(asking("report-0", "10 m"))
    found = data("what-if", "--pending", dump, code=1)
    (refused,) = [each for each in found["pods"] if each["pod"] == "shop/report-0"]
    assert refused["node"] == ""
    assert UNREADABLE in refused["why"]
    assert found["asked"] == len(found["pods"])
    code, told, _ = scheduler("what-if", "--pending", dump)
    assert code == 1
    assert UNREADABLE in told
    waiting = {each["pod"]: each["message"] for each in data("status", dump)["pending"]}
    assert UNREADABLE in waiting["shop/report-0"]


def test_a_pod_in_place_that_cannot_be_read_is_not_asked_about(changed: Callable[..., str]) -> None:
    dump = changed(asking("web-1", "10 m"))
    assert "shop/web-1" not in [each["pod"] for each in data("what-if", "--pending", dump, code=1)["pods"]]
    assert scheduler("explain", "shop/web-1", dump)[0] == 2


@pytest.mark.finding("N3")
def test_explain_tells_pods_that_ended_from_pods_that_there_are_not(changed: Callable[..., str]) -> None:
    def end(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "report-0":
            item["status"] = {"phase": "Succeeded"}

    code, _, told = scheduler("explain", "shop/report-0", changed(end))
    assert (code, told) == (
        2,
        'situate: pod "report-0" in namespace "shop" has ended; name a running or pending Pod\n',
    )
    code, _, told = scheduler("explain", "shop/nothing", DUMP)
    assert (code, told) == (2, 'situate: pod "nothing" not found in namespace "shop"\n')


def test_another_profile_gives_another_answer() -> None:
    packing = f"--file={EXAMPLES / 'packing.yaml'}"
    usual = data("what-if", str(EXAMPLES / "deployment.yaml"), DUMP)
    packed = data("what-if", str(EXAMPLES / "deployment.yaml"), DUMP, packing)
    assert [each["node"] for each in usual["pods"]][:3] == ["node-a1", "node-b1", "node-c1"]
    assert [each["node"] for each in packed["pods"]][:3] == ["node-c1", "node-a1", "node-b1"]


def test_status_tells_how_full_nodes_are_and_who_waits_for_what() -> None:
    found = data("status", DUMP)
    assert [(each["node"], each["requested"]["cpu"]) for each in found["nodes"]][:2] == [
        ("node-c1", 0.875),
        ("node-a1", 0.75),
    ]
    assert [each["node"] for each in found["nodes"] if each["cordoned"]] == ["node-a2"]
    messages = {each["pod"]: each["message"] for each in found["pending"]}
    assert messages["shop/report-0"] == data("explain", "shop/report-0", DUMP, code=1)["message"]
    assert set(messages) == {"shop/report-0", "shop/train-1"}


def test_status_tells_pods_alike_the_same_and_gates_apart(changed: Callable[..., str]) -> None:
    def gate(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "report-0":
            item["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]

    found = {each["pod"]: each for each in data("status", changed(gate))["pending"]}
    assert found["shop/report-0"]["gate"] == "SchedulingGates: waiting for scheduling gates: [example.com/quota]"
    assert not found["shop/train-1"]["gate"]
    told = scheduler("status", changed(gate))[1]
    assert "gated by SchedulingGates: " in told
    assert "6 nodes, 1 cordoned; 2 pods pending" in told


def test_what_if_tells_what_would_have_to_change() -> None:
    found = data("what-if", "--drain=node-a1", DUMP, code=1)
    (changes,) = found["changes"].values()
    assert [each["kind"] for each in changes["changes"]][:2] == ["uncordon", "room"]
    told = scheduler("what-if", "--drain=node-a1", DUMP)[1]
    assert "shop/orders-0 finds no node\neach of these changes alone would make the Pod fit:\n- uncordon " in told


def test_what_if_counts_what_more_would_fit() -> None:
    found = data("what-if", str(EXAMPLES / "deployment.yaml"), DUMP)
    (kind,) = found["kinds"]
    assert (kind["asked"], kind["placed"], kind["more"], kind["moreIsExact"]) == (6, 6, 1, True)
    (kind,) = data("what-if", str(EXAMPLES / "deployment.yaml"), DUMP, "--most=1")["kinds"]
    assert (kind["more"], kind["moreIsExact"]) == (1, False)
    (kind,) = data("what-if", str(EXAMPLES / "deployment.yaml"), DUMP, "--most=0")["kinds"]
    assert kind["more"] is None


@pytest.mark.parametrize(
    ("arguments", "want", "code"),
    [
        pytest.param(["--pending"], {"shop/report-0": "node-c1", "shop/train-1": ""}, 1, id="preempts, or waits"),
        pytest.param(
            ["--pending", "--add-nodes=1", "--like=node-c1"],
            {"shop/report-0": "node-c1-copy-1", "shop/train-1": ""},
            1,
            id="a node more",
        ),
        pytest.param(["--drain=node-c1"], {"shop/orders-2": "", "shop/batch-0": "node-a1"}, 1, id="a drain"),
        pytest.param(
            ["--pending", "--remove-pod=shop/orders-0", "--cordon=node-c1"],
            {"shop/report-0": "node-a1", "shop/train-1": ""},
            1,
            id="a pod less, a node cordoned",
        ),
        pytest.param(
            ["--pending", "--remove-node=node-c1"], {"shop/report-0": "", "shop/train-1": ""}, 1, id="a node less"
        ),
    ],
)
def test_things_may_be_otherwise(arguments: list[str], want: dict[str, str], code: int) -> None:
    found = data("what-if", *arguments, DUMP, code=code)
    assert {each["pod"]: each["node"] for each in found["pods"]} == want


@pytest.mark.parametrize(
    ("kind", "version", "field"),
    [
        ("Deployment", "apps/v1", "replicas"),
        ("ReplicaSet", "apps/v1", "replicas"),
        ("StatefulSet", "apps/v1", "replicas"),
        ("Job", "batch/v1", "parallelism"),
    ],
)
def test_templates_become_pods(kind: str, version: str, field: str, written: Callable[[str], str]) -> None:
    template = {
        "metadata": {"labels": {"app": "new"}},
        "spec": {
            "restartPolicy": "Always" if kind != "Job" else "Never",
            "priorityClassName": "shop-critical",
            "containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "100m"}}}],
        },
    }
    spec = {field: 3, "selector": {"matchLabels": {"app": "new"}}, "template": template}
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}, "spec": spec}
    found = data("what-if", written(json.dumps(made)), "-n", "shop", DUMP)
    assert [each["pod"] for each in found["pods"]] == ["shop/new-0", "shop/new-1", "shop/new-2"]
    assert found["kinds"][0]["asked"] == 3
    assert all(each["node"] for each in found["pods"])


@pytest.mark.finding("N14")
def test_explain_takes_a_type_and_a_name_as_kubectl_does() -> None:
    wanted = data("explain", "shop/report-0", DUMP, code=1)
    for arguments in (["pod/report-0", "-n", "shop"], ["pods/shop/report-0"], ["po/report-0", "--namespace=shop"]):
        assert data("explain", *arguments, DUMP, code=1) == wanted
    code, _, complaint = scheduler("explain", "pod/report-0", DUMP)
    assert code == 2
    assert (
        'pod "report-0" not found in namespace "default"; namespace shop has a Pod of this name; select it with -n'
        in complaint
    )
    for arguments in (["deployment/report", "-n", "shop"], ["deployment/report"]):
        code, _, complaint = scheduler("explain", *arguments, DUMP)
        assert code == 2
        assert 'deployment/report: found type "deployment", allowed: pod' in complaint


def test_nodes_and_services_of_a_manifest_count_as_applied(written: Callable[[str], str]) -> None:
    room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}, "status": {"allocatable": room}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}}}
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    file = written("\n---\n".join(map(json.dumps, (node, service, extra))))
    found = data("what-if", "--pending", file, DUMP, code=1)
    assert {each["pod"]: each["node"] for each in found["pods"]}["shop/report-0"] == "new"
    assert found["remarks"] == [f"ignored: ConfigMap c ({file}: document 3, line 5)"]


def test_a_dump_may_be_several_files_and_folders(tmp_path: Path) -> None:
    items = yaml.safe_load(CLUSTER.read_text())["items"]
    nodes = [item for item in items if item["kind"] == "Node"]
    (tmp_path / "more").mkdir()
    bare = [{key: value for key, value in node.items() if key not in ("kind", "apiVersion")} for node in nodes]
    typed = {"apiVersion": "v1", "kind": "NodeList", "items": bare}
    (tmp_path / "nodes.json").write_text(json.dumps(typed))
    rest = [item for item in items if item["kind"] != "Node"]
    (tmp_path / "more" / "rest.yaml").write_text("---\n".join(map(yaml.safe_dump, rest)))
    arguments = ("explain", "shop/report-0", f"--objects={tmp_path / 'nodes.json'}", f"--objects={tmp_path / 'more'}")
    assert data(*arguments, code=1) == data("explain", "shop/report-0", DUMP, code=1)


def test_one_bad_object_is_named_and_does_not_stop_the_others(changed: Callable[..., str]) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["metadata"]["name"] == "node-a2":
            item["status"]["allocatable"]["cpu"] = "much"
        if item["metadata"]["name"] == "train-1":
            item["spec"]["affinity"] = {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "zone",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
                        }
                    ]
                }
            }

    found = data("explain", "shop/report-0", changed(spoil), code=1)
    assert found["nodes"] == 5
    assert any("items[1]" in each and "much" in each for each in found["remarks"])
    assert any("shop/train-1" in each and "Near" in each for each in found["remarks"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["explain", "shop/reprot-0", DUMP], "did you mean report-0?", id="a pod"),
        pytest.param(["explain", "report-0", DUMP], "select it with -n", id="a namespace"),
        pytest.param(["explain", "shop/x", "-n", "mart", DUMP], "names another namespace", id="two namespaces"),
        pytest.param(["explain", "x", "--objects=/nowhere"], "--objects /nowhere: cannot be read", id="a dump"),
        pytest.param(
            ["what-if", DUMP],
            "what-if: no Pods to place",
            id="nothing to ask",
        ),
        pytest.param(["what-if", "--pending", "--like=node-a1", DUMP], "--add-nodes N", id="like alone"),
        pytest.param(["what-if", "--pending", "--add-nodes=2", DUMP], "--like NODE", id="a count alone"),
        pytest.param(["what-if", "--drain=node-a", DUMP], "did you mean node-a2?", id="a node"),
        pytest.param(["what-if", "--pending", "--remove-pod=x", DUMP], "NAMESPACE/NAME", id="a pod to remove"),
        pytest.param(["replay", "/nowhere"], "/nowhere: cannot be read", id="a recording"),
        pytest.param(["replay", str(CLUSTER)], "line 1: not the header of a recording", id="no recording"),
        pytest.param(["record", "x", "--for=soon"], "--for soon", id="a duration"),
        pytest.param(["record", "x", "--max-size=9"], "--max-size: found 9, allowed: 1024 bytes or more", id="a size"),
        pytest.param(["shadow", "--for=-1s"], "--for: found -1s", id="a negative duration"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(arguments: list[str], told: str) -> None:
    code, printed, complaint = scheduler(*arguments)
    assert (code, printed) == (2, "")
    assert complaint.startswith("situate: ")
    assert told in complaint
    assert len(complaint.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(POD + "---\n- 1\n", "document 2, line 5: found [1], allowed: a Kubernetes object", id="a list"),
        pytest.param("a: [", "line 1", id="no YAML"),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "no Pods, allowed: Pod, Deployment", id="no Pods"
        ),
        pytest.param(
            POD + "spec: {containers: [{name: a, image: b, resorces: {}}]}\n",
            'Pod web: Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
            '"spec.containers[0].resorces"',
            id="an unknown field",
        ),
        pytest.param(
            POD + "spec: {containers: [{name: a, image: b, resources: {requests: {cpu: much}}}]}\n",
            "Pod web: ",
            id="a quantity",
        ),
        pytest.param(
            POD + "spec: {priorityClassName: high, containers: [{name: a, image: b}]}\n",
            "no PriorityClass with name high was found",
            id="a priority class",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: -1, template: {}}\n",
            "Deployment web: spec.replicas: found -1, allowed: 0 to 1000000",
            id="a count",
        ),
        pytest.param(
            POD + "spec: {containers: [{name: a, image: b}]}\n---\n"
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many}\n"
            "spec: {replicas: 1000000, template: {spec: {containers: [{name: a, image: b}]}}}\n",
            "Deployment many: found 1000000 Pods, allowed: 1000000 in all files",
            id="too many together",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n",
            "Deployment web: spec.template: found null, allowed: a template",
            id="no template",
        ),
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nspec: {}\n", "Deployment: metadata.name: missing", id="no name"
        ),
        pytest.param(f"apiVersion: v1\nkind: {json.dumps(HOSTILE)}\n", "no Pods", id="control sequences"),
    ],
)
def test_bad_manifests_are_one_sentence_with_file_object_and_field(
    content: str, told: str, written: Callable[[str], str]
) -> None:
    code, printed, complaint = scheduler("what-if", written(content), DUMP)
    assert (code, printed) == (2, "")
    assert "written.yaml" in complaint
    assert told in complaint
    assert "\x1b" not in complaint
    assert len(complaint.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param("a: 1\n", "kind: found none, allowed: KubeSchedulerConfiguration", id="another file"),
        pytest.param(SITUATE + "vpod: []\n", "no scheduler section", id="no section"),
        pytest.param(KUBERNETES + "profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]\n", "Nope", id="a plugin"),
        pytest.param(KUBERNETES + "profils: []\n", "profils", id="a key"),
        pytest.param(
            KUBERNETES + "profiles: [{schedulerName: a}, {schedulerName: b}]\n",
            "no profile for Pods of scheduler default-scheduler, found: a, b;",
            id="no profile of that name",
        ),
    ],
)
def test_bad_profiles_are_told_by_their_path(content: str, told: str, written: Callable[[str], str]) -> None:
    code, printed, complaint = scheduler("explain", "shop/report-0", DUMP, "-f", written(content))
    assert (code, printed) == (2, "")
    assert told in complaint


def test_one_profile_answers_for_all_and_says_so(written: Callable[[str], str]) -> None:
    profile = written(SITUATE + "scheduler: {}\n")
    found = data("explain", "shop/report-0", DUMP, "-f", profile, code=1)
    assert found["remarks"] == ["Pods of scheduler default-scheduler are evaluated under profile situate"]


def test_a_dump_without_anything_to_schedule_says_how_to_write_one(written: Callable[[str], str]) -> None:
    code, _, complaint = scheduler("explain", "x", "--objects", written("kind: ConfigMap\napiVersion: v1\n"))
    assert code == 2
    assert "kubectl get nodes,pods" in complaint
    code, _, complaint = scheduler("explain", "x", "--objects", written(BOMB.decode()))
    assert (code, len(complaint.splitlines())) == (2, 1)


def test_a_replay_compares_placement_by_placement() -> None:
    same = data("replay", str(RECORDING))
    assert same["counts"]["same"] == 13
    assert all(each["result"] == "same" for each in same["pods"])
    packed = data("replay", str(RECORDING), f"--file={EXAMPLES / 'packing.yaml'}")
    assert packed["counts"] == {
        "same": 3,
        "equally good": 0,
        "other node": 7,
        "impossible here": 3,
        "refused here": 0,
        "refused there": 0,
    }
    assert packed["pods"][1]["scores"]["plugins"] == {"NodeResourcesFit": {"here": 18, "there": 9}}
    assert packed["nodesUsed"]["mean"]["here"] < packed["nodesUsed"]["mean"]["there"]
    assert packed["samples"][-1]["pendingHere"] == 0


def test_a_recording_that_was_cut_off_is_played_up_to_there(tmp_path: Path) -> None:
    whole = RECORDING.read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[: len(whole) // 2])
    found = data("replay", str(tmp_path / "cut.jsonl"))
    assert found["remarks"] == ["the recording was cut off, so its incomplete last line is left out"]
    assert 0 < len(found["pods"]) < 13


def test_the_examples_in_the_help_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cluster.yaml", "deployment.yaml", "packing.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    code, told, _ = scheduler("-h")
    assert code == 0
    assert all(verb in told for verb in ("explain", "what-if", "record", "replay", "shadow"))
    code, told, _ = scheduler("what-if", "deployment.yaml", "-f", "packing.yaml", "--objects", "cluster.yaml")
    assert code == 0


@pytest.mark.finding("N9")
def test_objects_without_a_name_are_left_out_and_told(written: Callable[[str], str]) -> None:
    nodes = "{apiVersion: v1, kind: Node, metadata: {}}, {apiVersion: v1, kind: Node, metadata: {name: a}}"
    pods = "{apiVersion: v1, kind: Pod}, {apiVersion: v1, kind: Pod, metadata: {name: here}}"
    file = written(f"{{apiVersion: v1, kind: List, items: [{nodes}, {pods}]}}\n")
    found = data("status", "--objects", file)
    assert [each["node"] for each in found["nodes"]] == ["a"]
    assert [each["pod"] for each in found["pending"]] == ["default/here"], "as kubectl has it"
    assert found["remarks"] == [
        f"left out: --objects {file}: line 1, items[{place}]: {kind}: metadata.name: missing, allowed: a name"
        for place, kind in ((0, "Node"), (2, "Pod"))
    ]


@pytest.mark.finding("N9")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["what-if", "--pending", "--add-nodes", "1", "--like", ""], '--like "": node not found'),
        (["what-if", "--pending", "--remove-pod", ""], '--remove-pod "": Pod not found'),
    ],
)
def test_an_empty_name_is_shown_as_such(arguments: list[str], told: str) -> None:
    code, _, said = scheduler(*arguments, DUMP)
    assert code == 2
    assert told in said

"""The answer to a pod's creation, as one step (P2, P3, P17 to P20, P27)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.selection.label_selectors import EVERYTHING
from situate.spot.admission.admit import (
    UNREADABLE,
    AdmissionAnswer,
    AdmissionSettings,
    AdmissionView,
    LiveRead,
    NeedsRead,
    PodRequest,
    admit,
)
from situate.spot.admission.ledger import ARRIVAL_S, Ledger, Reservation, Slot
from situate.spot.admission.patch_check import apply_operations
from situate.spot.model.pods_nodes_workloads import WEBHOOK_CHECK, PodFacts
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory
from situate.spot.workloads.owners import KINDS, Controller, ReplicaSetFacts
from tests.spot.builders import NODES, NOW, OD, SET, SPOT, UID, cluster, created_by, owner, pod, pods, settings

CAPACITY = "node.kubernetes.io/capacity"
ON_DEMAND = {"spot.situate.dev/on-demand": "2"}
SLOT = Slot(UID, "r1")


def view(spec: str = "", replicas: int = 9, live: LiveRead | None = None, **more: Any) -> AdmissionView:
    of = owner(replicas, **{"annotations": ON_DEMAND, **more})
    return AdmissionView(cluster(of, pods(spec)), settings(), {}, live)


def ask(
    given: AdmissionView,
    body: Any = None,
    ledger: Ledger | None = None,
    token: str = "t",
    namespace: str = "shop",
    asked_at: float = NOW - 1,
    **more: Any,
) -> tuple[AdmissionAnswer, Ledger]:
    """`asked_at`: before what others are promised now, as pods of one batch are."""
    request = PodRequest(namespace, created_by() if body is None else body, **more)
    found = admit(request, given, ledger or Ledger.empty(), NOW, token, asked_at)
    assert not isinstance(found, NeedsRead), found
    return found


def seen_live(given: AdmissionView, began: float) -> AdmissionView:
    """A live read that shows what the watch shows."""
    of = given.cluster
    return replace(given, live=LiveRead(of.owners[UID], of.replica_sets[SET], tuple(of.pods[UID]), began))


@pytest.mark.rule("spot:S20", "spot:P17", "spot:P27", "spot:S2", "spot:D3")
def test_a_pod_is_classed_and_reserved_in_one_step() -> None:
    answer, ledger = ask(view("od:1 spot:3"))
    assert (answer.pod_class, answer.target, answer.on_demand, answer.why) == (OD, 2, 1, "below-target")
    assert [entry.token for entry in ledger.reservations[SLOT]] == ["t"]
    after = apply_operations(created_by(), answer.operations)
    assert after["metadata"]["labels"]["spot.situate.dev/class"] == "on-demand"
    assert after["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "200"
    decision = json.loads(after["metadata"]["annotations"]["spot.situate.dev/decision"])
    assert decision == {"token": "t", "owner": UID, "rev": "r1", "class": "on-demand", "target": 2, "od": 1,
                        "why": "below-target", "epoch": 0}  # fmt: skip
    second, ledger = ask(view("od:1 spot:3"), ledger=ledger, token="u")
    assert (second.pod_class, second.on_demand) == (SPOT, 2)
    assert len(ledger.reservations[SLOT]) == 2, "a spot answer is kept for the slot rule"
    assert ledger.open_on_demand_count(SLOT, (), NOW) == 1


@pytest.mark.finding("S1")
@pytest.mark.rule("spot:B17")
def test_a_surge_hands_out_one_spot_pod_while_the_watch_is_behind() -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0", controller="uid-web-r0") for n in range(2)]
    memory = WorkloadMemory(surge_revision="r1", yielding="uid-old-0", surged="uid-new-1", surged_at=NOW)
    of = owner(2, annotations=ON_DEMAND, rolling=True)
    behind = AdmissionView(cluster(of, old), settings(), {UID: memory})
    first, ledger = ask(behind, token="t")
    assert (first.pod_class, first.why) == (SPOT, "surge-as-spot")
    dry, same = ask(behind, ledger=Ledger.empty(), dry_run=True)
    assert (dry.pod_class, same) == (SPOT, Ledger.empty()), "a dry run uses nothing up"
    second, ledger = ask(behind, ledger=ledger, token="u")
    assert (second.pod_class, second.why) == (OD, "below-target"), "the old Pod may be ending already"
    later = replace(behind, memories={UID: replace(memory, surged="uid-new-2")})
    third, _ = ask(later, ledger=Ledger.empty().with_surge(SLOT, "uid-new-1"), token="v")
    assert third.why == "surge-as-spot", "the next deleted Pod permits the next spot Pod"


@pytest.mark.rule("spot:S2", "spot:S3", "spot:S21", "spot:P16")
def test_a_statefulset_needs_no_reservation() -> None:
    of = owner(3, "StatefulSet", name="db", uid="uid-db")
    given = AdmissionView(cluster(of, []), settings(), {})
    for name, want in (("db-0", OD), ("db-1", OD), ("db-2", SPOT)):
        answer, ledger = ask(given, created_by("uid-db", "StatefulSet", name))
        assert (answer.pod_class, ledger) == (want, Ledger.empty())
        assert "pod-deletion-cost" not in str(answer.operations), "StatefulSets ignore it"


@pytest.mark.finding("N33")
@pytest.mark.rule("spot:P19")
def test_a_trial_of_check_is_marked_and_never_a_pod_that_is_created() -> None:
    asked = created_by(annotations={WEBHOOK_CHECK: "asked"})
    answer, ledger = ask(view("od:1"), asked, dry_run=True)
    assert apply_operations(asked, answer.operations)["metadata"]["annotations"] == {WEBHOOK_CHECK: "answered"}
    assert ledger == Ledger.empty()
    real, _ = ask(view("od:1"), asked)
    assert real.pod_class is OD
    assert apply_operations(asked, real.operations)["metadata"]["annotations"][WEBHOOK_CHECK] == "asked"


@pytest.mark.rule("spot:S3", "spot:I8", "spot:P3", "spot:D9")
@pytest.mark.parametrize(
    ("body", "namespace", "why"),
    [
        pytest.param({"metadata": {}}, "shop", "the pod has no controller", id="a bare pod"),
        pytest.param({}, "shop", "the request has no pod", id="nothing"),
        pytest.param(created_by(), "kube-system", "spot ignores pods", id="kube-system"),
        pytest.param(created_by(), "situate", "spot ignores pods", id="our own namespace"),
        pytest.param(created_by(spec={"nodeName": "n"}), "shop", "has a node", id="placed already"),
        pytest.param(created_by(annotations={"kubernetes.io/config.mirror": "x"}), "shop", "static", id="a mirror"),
        pytest.param(created_by(kind="DaemonSet"), "shop", "spot ignores pods of a DaemonSet", id="a DaemonSet's"),
        pytest.param(created_by(labels={"spot.situate.dev/mix": "disabled"}), "shop", "disabled", id="opted out"),
        pytest.param({**created_by(), "status": {"phase": "Failed"}}, "shop", "has ended", id="ended"),
    ],
)
def test_who_is_left_alone(body: dict[str, Any], namespace: str, why: str) -> None:
    answer, ledger = ask(view(), body, namespace=namespace)
    assert (answer.pod_class, answer.operations, ledger) == (None, (), Ledger.empty())
    assert why in answer.why


@pytest.mark.rule("spot:S3")
def test_a_replicaset_that_stands_alone_is_left_alone() -> None:
    alone = ReplicaSetFacts(SET, None, "shop", "web")
    given = view()
    answer, _ = ask(replace(given, cluster=replace(given.cluster, replica_sets={SET: alone})))
    assert answer.why == "ReplicaSet web-r1 has no controller"


@pytest.mark.rule("spot:B42", "spot:S3")
def test_other_kinds_of_workloads_take_part_when_they_are_configured() -> None:
    rollout = owner(4, "Rollout", revision_label="rollouts-pod-template-hash", annotations=ON_DEMAND)
    between = ReplicaSetFacts(SET, Controller("argoproj.io/v1alpha1", "Rollout", "web", UID), "shop", "web-r1", 4, "r1")
    known = replace(cluster(rollout, []), replica_sets={SET: between})
    body = created_by(labels={"rollouts-pod-template-hash": "r7"})
    left, _ = ask(AdmissionView(known, settings(), {}), body)
    assert left.why == "spot ignores pods of a Rollout"
    answer, ledger = ask(AdmissionView(known, settings(owner_kinds=("Rollout",)), {}), body)
    assert answer.pod_class is OD
    assert Slot(UID, "r7") in ledger.reservations, "by its own label of revisions"
    assert KINDS["CloneSet"].revision_label == "controller-revision-hash"


@pytest.mark.rule("spot:P19", "spot:D4", "spot:B5")
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 6), st.integers(0, 40))
def test_a_dry_run_is_the_next_answer_and_leaves_no_trace(on_demand: int, spot: int, reserved: int, floor: int) -> None:
    annotations = {"spot.situate.dev/on-demand": str(floor)}
    given_ = view(f"od:{on_demand} spot:{spot}", replicas=40, annotations=annotations)
    ledger = Ledger.empty()
    for number in range(reserved):
        _, ledger = ask(given_, ledger=ledger, token=f"t{number}")
    tried, after = ask(given_, ledger=ledger, token="next", dry_run=True)
    assert after == ledger
    assert ask(given_, ledger=ledger, token="next")[0] == tried


@pytest.mark.rule("spot:P18", "spot:B3", "spot:F2")
def test_a_reinvocation_repeats_itself() -> None:
    first, ledger = ask(view())
    body = apply_operations(created_by(), first.operations)
    body["spec"]["affinity"]["nodeAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")  # another webhook
    again, after = ask(view("od:5"), body, ledger, token="another")
    assert (again.pod_class, again.why) == (OD, "reserved")
    assert [entry.token for entry in after.reservations[SLOT]] == ["t"]
    repaired = apply_operations(body, again.operations)
    assert repaired == apply_operations(created_by(), first.operations), "identical to what was sent first"


@pytest.mark.rule("spot:P18", "spot:B3", "spot:B9")
def test_a_token_that_somebody_copied_says_nothing() -> None:
    first, ledger = ask(view())
    body = apply_operations(created_by(), first.operations)
    del body["spec"]["affinity"]
    seen = replace(view().cluster, pods={UID: [pod("a", "od", OD, token="t"), pod("b", "od", OD)]})
    copied, _ = ask(replace(view(), cluster=seen), body, ledger, token="new")
    assert (copied.pod_class, copied.why) == (SPOT, "target-met")
    elsewhere = owner(9, annotations={}, name="api", uid="uid-api")
    moved, _ = ask(AdmissionView(cluster(elsewhere, []), settings(), {}), body, token="new")
    assert (moved.pod_class, moved.why) == (SPOT, "target-met")


@pytest.mark.rule("spot:P18")
def test_the_same_name_keeps_its_class() -> None:
    body = created_by(name="web-x")
    _, ledger = ask(view("od:1"), body)
    again, after = ask(view("od:9"), body, ledger, token="u")
    assert (again.pod_class, again.why, len(after.reservations[SLOT])) == (OD, "reserved", 1)


@pytest.mark.rule("spot:P20", "spot:F1", "spot:P5")
def test_what_the_watch_has_not_shown_yet_is_read() -> None:
    unknown = AdmissionView(Cluster(nodes=NODES), settings(), {})
    request = PodRequest("shop", created_by())
    needed = admit(request, unknown, Ledger.empty(), NOW, "t")
    assert needed == NeedsRead("shop", Controller("apps/v1", "ReplicaSet", "web-r1", SET))
    full = view()
    read = LiveRead(full.cluster.owners[UID], full.cluster.replica_sets[SET], ())
    assert ask(replace(unknown, live=read))[0].pod_class is OD
    failed, _ = ask(replace(unknown, live=UNREADABLE))
    assert (failed.pod_class, failed.why) == (None, "ReplicaSet web-r1 was not found")


@pytest.mark.rule("spot:P20", "spot:P5", "spot:B1")
def test_a_stale_count_is_read_anew_with_the_present_target() -> None:
    stale = view("spot:3", replicas=3)
    assert isinstance(admit(PodRequest("shop", created_by()), stale, Ledger.empty(), NOW, "t"), NeedsRead)
    grown = owner(10, annotations={"spot.situate.dev/on-demand": "50%"})
    between = replace(stale.cluster.replica_sets[SET], replicas=10)
    live: tuple[PodFacts, ...] = (*pods("spot:3"), *pods("od:4"))
    answer, _ = ask(replace(stale, live=LiveRead(grown, between, live)))
    assert (answer.pod_class, answer.target, answer.on_demand) == (OD, 5, 4)
    doubt, _ = ask(replace(stale, live=UNREADABLE))
    assert (doubt.pod_class, doubt.why) == (OD, "in-doubt")


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P19", "spot:P5", "spot:K1", "spot:K3")
def test_a_pod_that_is_spot_only_thanks_to_a_promise_waits_until_a_read_can_tell_whether_it_is_kept() -> None:
    given_, ledger = view("od:1 spot:1"), Ledger.empty()
    for at in (NOW - 2, NOW - ARRIVAL_S):
        ledger = ledger.with_reservation(SLOT, Reservation(f"t{at}", OD, at, replica_set=SET))
    request = PodRequest("shop", created_by())
    needed = admit(request, given_, ledger, NOW - ARRIVAL_S, "u")
    assert isinstance(needed, NeedsRead)
    assert needed.not_before == NOW, "when the youngest had time to come"

    answer, after = ask(seen_live(given_, NOW), ledger=ledger, token="u", asked_at=NOW)
    assert (answer.pod_class, answer.on_demand) == (OD, 1), "neither came"
    assert [entry.token for entry in after.reservations[SLOT]] == ["u"]
    early = admit(request, seen_live(given_, NOW - 0.1), ledger, NOW, "u", NOW)
    assert early == needed, "the younger one may still be on its way"
    mate, after = ask(seen_live(given_, NOW - 0.1), ledger=ledger, asked_at=NOW - 1.5)
    assert (mate.pod_class, mate.on_demand) == (SPOT, 2), "it is of the same batch"
    assert len(after.reservations[SLOT]) == 2, "the elder one is over"
    tried, after = ask(seen_live(given_, NOW), ledger=ledger, dry_run=True, asked_at=NOW)
    assert (tried.pod_class, after) == (OD, ledger), "a dry run leaves what it found"
    failed, _ = ask(replace(given_, live=UNREADABLE), ledger=ledger, asked_at=NOW)
    assert failed.pod_class is OD, "in doubt"


@pytest.mark.rule("spot:P25", "spot:P27", "spot:B8", "spot:S7")
@pytest.mark.parametrize(
    ("selector", "there", "pod_class", "why", "warned"),
    [
        pytest.param("on-demand", "", OD, "below-target", False, id="pinned to what it gets"),
        pytest.param("on-demand", "od:2", OD, "pinned", False, id="pinned to more than is needed"),
        pytest.param("spot", "od:2", SPOT, "target-met", False, id="pinned to spot, which is right"),
        pytest.param("spot", "", SPOT, "pinned", True, id="pinned to spot although the floor lacks one"),
        pytest.param("cheap", "", None, "unplaceable", True, id="neither"),
    ],
)
def test_pinned_pods(selector: str, there: str, pod_class: object, why: str, warned: bool) -> None:
    body = created_by(spec={"nodeSelector": {CAPACITY: selector}})
    answer, ledger = ask(view(there), body)
    assert (answer.pod_class, answer.why, bool(answer.warnings)) == (pod_class, why, warned)
    after = apply_operations(body, answer.operations)
    touched = after["spec"] != body["spec"]
    assert touched == (why in ("below-target", "target-met"))
    assert ledger.open_on_demand_count(SLOT, (), NOW) == (pod_class is OD)
    assert all("spec.nodeSelector" in warning for warning in answer.warnings)


@pytest.mark.rule("spot:P7", "spot:P8")
def test_in_strict_mode_a_pod_only_gets_a_gate() -> None:
    strict = replace(view().settings, strict=EVERYTHING)
    answer, ledger = ask(replace(view(), settings=strict))
    assert answer.gated
    assert answer.operations == (
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "spot.situate.dev/placement"}]},
    )
    assert ledger == Ledger.empty()
    after = apply_operations(created_by(), answer.operations)
    assert ask(replace(view(), settings=strict), after)[0].operations == (), "once is enough"
    other = created_by(spec={"schedulingGates": [{"name": "x"}]})
    gates = apply_operations(other, ask(replace(view(), settings=strict), other)[0].operations)["spec"][
        "schedulingGates"
    ]
    assert [gate["name"] for gate in gates] == ["x", "spot.situate.dev/placement"]


@pytest.mark.rule("spot:B18")
def test_a_debt_is_not_asked_for_and_leaves_a_wish() -> None:
    given = replace(view("od:1"), memories={UID: WorkloadMemory(debt=1)})
    answer, _ = ask(given)
    assert (answer.pod_class, answer.why, answer.target) == (SPOT, "degraded", 2)
    wishes = apply_operations(created_by(), answer.operations)["spec"]["affinity"]["nodeAffinity"]
    (wish,) = wishes["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["preference"]["matchExpressions"][0]["values"] == ["on-demand"]


@pytest.mark.rule("spot:B47")
def test_pools_are_spread_on_request() -> None:
    nodes = {**NODES, "spot2": replace(NODES["spot"], name="spot2", instance_type="c5", pool="c5/a")}
    annotations = {"spot.situate.dev/spread-pools": "true"}
    given = view("spot:2", annotations=annotations)
    answer, _ = ask(replace(given, cluster=replace(given.cluster, nodes=nodes)))
    assert '"node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["m5"]' in json.dumps(answer.operations)
    plain = view("spot:2", annotations={})
    assert "instance-type" not in json.dumps(ask(plain)[0].operations)


@pytest.mark.rule("spot:P2")
def test_in_doubt_about_the_object_nothing_is_sent() -> None:
    body = created_by(annotations={"large": "x" * 262_100})
    answer, ledger = ask(view(), body)
    assert (answer.pod_class, answer.operations, ledger) == (None, (), Ledger.empty())


garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "key", "name",
                         "nodeSelectorTerms", "matchExpressions", "tolerations", "nodeSelector", "schedulingGates",
                         "preferredDuringSchedulingIgnoredDuringExecution", "preference", "labels", "annotations"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.rule("spot:P2", "spot:F5")
@given(garbage, garbage, garbage)
def test_any_object_gets_an_answer(spec: Any, labels: Any, annotations: Any) -> None:
    body = created_by(labels=labels, annotations=annotations)
    body["spec"] = spec
    answer, _ = ask(view(), body)
    if answer.operations:
        apply_operations(body, answer.operations)


def test_the_kinds_that_are_ours_by_default() -> None:
    assert [kind.kind for kind in AdmissionSettings(view().settings.placement_terms).kinds] == [
        "Deployment",
        "StatefulSet",
    ]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def wanting(*terms: dict[str, Any]) -> dict[str, Any]:
    """A pod on which somebody has set required node affinity."""
    return created_by(spec={"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}})


def on(*capacities: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": CAPACITY, "operator": "In", "values": list(capacities)}]}


@pytest.mark.rule("spot:F17", "spot:P25", "spot:P26", "spot:D8")
@pytest.mark.parametrize(
    ("body", "there", "pod_class", "warned"),
    [
        pytest.param(wanting(on("spot")), "", SPOT, True, id="another system says spot where the floor lacks one"),
        pytest.param(wanting(on("spot")), "od:2", SPOT, False, id="it says spot, which is right"),
        pytest.param(wanting(on("on-demand")), "od:2", OD, False, id="it says on demand, which then counts"),
    ],
)
def test_what_another_system_has_decided_before_us_stays_and_counts(
    body: dict[str, Any], there: str, pod_class: object, *, warned: bool
) -> None:
    answer, _ = ask(view(there), body)
    after = apply_operations(body, answer.operations)
    (term,) = after["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term == body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]
    assert (answer.pod_class, bool(answer.warnings)) == (pod_class, warned)


@pytest.mark.rule("spot:F17", "spot:P18", "spot:F5")
def test_what_another_system_adds_after_us_is_told_where_nothing_fits_any_more_and_never_undone() -> None:
    first, ledger = ask(view())
    body = apply_operations(created_by(), first.operations)
    terms = body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    terms[0]["matchExpressions"].append(on("spot")["matchExpressions"][0])
    again, after = ask(view(), body, ledger, token="u")
    assert (again.pod_class, again.operations, after) == (None, (), ledger)
    assert "allows neither on-demand nor spot nodes" in again.warnings[0]
    del terms[0]["matchExpressions"][-1]
    terms.append(on("spot"))
    ored, _ = ask(view(), body, ledger, token="u")
    repaired = apply_operations(body, ored.operations)["spec"]["affinity"]["nodeAffinity"][REQUIRED][
        "nodeSelectorTerms"
    ]
    assert all(on("on-demand")["matchExpressions"][0] in term["matchExpressions"] for term in repaired)


@pytest.mark.rule("spot:F17", "spot:P18", "spot:B3")
def test_two_installations_of_ours_give_one_pod_one_class() -> None:
    first, _ = ask(view("od:1"), token="theirs")
    body = apply_operations(created_by(), first.operations)
    second, ledger = ask(view("od:2"), body, token="ours")
    assert (second.pod_class, second.why, second.operations) == (OD, "reserved", ())
    assert [entry.token for entry in ledger.reservations[SLOT]] == ["theirs"], "the pod carries that one"


@pytest.mark.rule("spot:F17", "spot:P26", "spot:S24")
def test_a_class_that_a_template_carries_decides_nothing_and_what_others_marked_stays() -> None:
    theirs = {"spot.situate.dev/class": "spot", "example.com/lifecycle": "spot", "pod-template-hash": "r1"}
    body = created_by(labels=theirs, annotations={"controller.kubernetes.io/pod-deletion-cost": "7"})
    answer, _ = ask(view(), body)
    metadata = apply_operations(body, answer.operations)["metadata"]
    assert answer.pod_class is OD
    assert metadata["labels"] == {**theirs, "spot.situate.dev/class": "on-demand"}
    assert metadata["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "7"


@pytest.mark.rule("spot:S11", "spot:S12", "spot:S15", "spot:I7", "spot:S10")
@pytest.mark.parametrize("there", ["", "od:2"])
def test_which_scheduler_places_a_pod_and_how_it_spreads_is_left_alone(there: str) -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    body = created_by(spec={"schedulerName": "theirs", "topologySpreadConstraints": spread, "priority": 3})
    answer, _ = ask(view(there), body)
    after = apply_operations(body, answer.operations)["spec"]
    assert after.keys() - body["spec"].keys() <= {"affinity", "tolerations"}
    assert {key: after[key] for key in body["spec"]} == body["spec"]

"""Set the defaults of built-in kinds, by apiVersion and kind.

After the `defaults.go` of each group in `k8s.io/kubernetes/pkg/apis`, of the release in `schemas.catalog.version`.
Decoded objects are changed in place. Applying defaults twice changes nothing more. Kinds without defaults stay
unchanged. `structural` sets the defaults of custom resources.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from situate.cluster.kinds.defaults_pods import default_pod, default_pod_spec, qos_class, set_absent, set_empty

__all__ = ["apply_defaults", "qos_class"]

_Object = dict[str, Any]
_RBAC: Final = "rbac.authorization.k8s.io"


def apply_defaults(obj: _Object) -> None:
    """Set the fields that the object's author omitted."""
    fill = _DEFAULTS.get((obj.get("apiVersion", ""), obj.get("kind", "")))
    if fill is not None:
        fill(obj)


def _template(obj: _Object) -> None:
    template = obj["spec"].get("template")
    if template is not None:
        default_pod_spec(template.setdefault("spec", {}))


def _deployment(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _rolling_update(spec.setdefault("strategy", {}), maxUnavailable="25%", maxSurge="25%")
    set_absent(spec, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _template(obj)


def _rolling_update(strategy: _Object, **values: Any) -> None:
    set_empty(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        set_absent(strategy.setdefault("rollingUpdate", {}), **values)


def _daemon_set(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    _rolling_update(spec.setdefault("updateStrategy", {}), maxUnavailable=1, maxSurge=0)
    spec.setdefault("revisionHistoryLimit", 10)
    # v1 carries the internal field templateGeneration as an annotation.
    obj["metadata"].setdefault("annotations", {}).setdefault("deprecated.daemonset.template.generation", "1")
    _template(obj)


def _stateful_set(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    set_empty(spec, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    set_empty(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), whenDeleted="Retain", whenScaled="Retain")
    set_absent(spec, replicas=1, revisionHistoryLimit=10)
    _template(obj)
    for claim in spec.get("volumeClaimTemplates", ()):
        # The template of a claim is a whole object, so it also has apiVersion and kind.
        set_absent(claim, apiVersion="v1", kind="PersistentVolumeClaim")
        _persistent_volume_claim(claim)


def _replica_set(obj: _Object) -> None:
    obj.setdefault("spec", {}).setdefault("replicas", 1)
    _template(obj)


def _replication_controller(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    _template(obj)


def _job_spec(spec: _Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    set_absent(
        spec,
        parallelism=1,
        backoffLimit=2147483647 if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        manualSelector=False,
    )


def _job(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)
    _job_spec(spec)
    _template(obj)


def _cron_job(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    set_absent(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = spec.get("jobTemplate", {}).get("spec")
    if template is not None:
        _template({"spec": template})


def _pod_template(obj: _Object) -> None:
    if "template" in obj:
        default_pod_spec(obj["template"].setdefault("spec", {}))


def _service(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    set_empty(spec, sessionAffinity="None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif "timeoutSeconds" not in spec.get("sessionAffinityConfig", {}).get("clientIP", {}):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    set_empty(spec, type="ClusterIP")
    for port in spec.get("ports", ()):
        set_empty(port, protocol="TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    external = spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if external:
        set_empty(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _persistent_volume(obj: _Object) -> None:
    set_empty(obj.setdefault("status", {}), phase="Pending")
    spec = obj.setdefault("spec", {})
    set_empty(spec, persistentVolumeReclaimPolicy="Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _network_policy(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction, ()):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")
    set_empty(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def _persistent_volume_claim(obj: _Object) -> None:
    set_empty(obj.setdefault("status", {}), phase="Pending")
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _endpoints(obj: _Object) -> None:
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            set_empty(port, protocol="TCP")


def _endpoint_slice(obj: _Object) -> None:
    for port in obj.get("ports") or ():
        set_absent(port, name="", protocol="TCP")


def _namespace(obj: _Object) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    set_empty(obj.setdefault("status", {}), phase="Active")


def _node(obj: _Object) -> None:
    status = obj.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _limit_range(obj: _Object) -> None:
    for item in obj.get("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            default = {**item.get("max", {}), **item.get("default", {})}
            request = {**item.get("min", {}), **default, **item.get("defaultRequest", {})}
            item.update({key: value for key, value in (("default", default), ("defaultRequest", request)) if value})


def _binding_of_role(obj: _Object) -> None:
    set_empty(obj.setdefault("roleRef", {}), apiGroup=_RBAC)
    for subject in obj.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            set_empty(subject, apiGroup=_RBAC)


def _csi_driver(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    set_absent(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    set_absent(spec, seLinuxMount=False, fsGroupPolicy="ReadWriteOnceWithFSType")
    set_empty(spec, volumeLifecycleModes=["Persistent"])


def _webhooks(obj: _Object) -> None:
    for webhook in obj.get("webhooks", ()):
        set_absent(webhook, failurePolicy="Fail", matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        webhook.setdefault("timeoutSeconds", 10)
        if obj["kind"] == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")
        service = webhook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def _match_resources(match: _Object | None) -> None:
    if match is not None:
        set_absent(match, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
        for name in ("resourceRules", "excludeResourceRules"):
            for rule in match.get(name, ()):
                rule.setdefault("scope", "*")


def _admission_policy(obj: _Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _match_resources(spec.get("matchConstraints"))


def _admission_policy_binding(obj: _Object) -> None:
    _match_resources(obj.get("spec", {}).get("matchResources"))


_DEFAULTS: Final[dict[tuple[str, str], Callable[[_Object], None]]] = {
    ("v1", "Pod"): default_pod,
    ("v1", "PodTemplate"): _pod_template,
    ("v1", "ReplicationController"): _replication_controller,
    ("v1", "Service"): _service,
    ("v1", "Secret"): partial(set_empty, type="Opaque"),
    ("v1", "PersistentVolume"): _persistent_volume,
    ("v1", "PersistentVolumeClaim"): _persistent_volume_claim,
    ("v1", "Endpoints"): _endpoints,
    ("v1", "Namespace"): _namespace,
    ("v1", "Node"): _node,
    ("v1", "LimitRange"): _limit_range,
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("apps/v1", "ReplicaSet"): _replica_set,
    ("batch/v1", "Job"): _job,
    ("batch/v1", "CronJob"): _cron_job,
    ("discovery.k8s.io/v1", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io/v1", "NetworkPolicy"): _network_policy,
    (f"{_RBAC}/v1", "RoleBinding"): _binding_of_role,
    (f"{_RBAC}/v1", "ClusterRoleBinding"): _binding_of_role,
    ("scheduling.k8s.io/v1", "PriorityClass"): partial(set_absent, preemptionPolicy="PreemptLowerPriority"),
    ("storage.k8s.io/v1", "StorageClass"): partial(set_absent, reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    ("storage.k8s.io/v1", "CSIDriver"): _csi_driver,
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"): _admission_policy_binding,
}

"""Checks of the admission objects: API servers call the webhook, and refuse an unreadable value.

Every request is a dry run. The webhook marks the Pod of the check. The mark proves the whole path: configuration,
Service, certificate and a leading process.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.errors import Forbidden, Invalid, KubeError, NotFound
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import PODS, unstructured
from situate.objects.reviews.authorization import ResourceAttributes
from situate.runtime.serving.certificates.secret_controller import MUTATING, published_bundle
from situate.spot.model.object_names import WEBHOOK, configuration_name
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, WEBHOOK_CHECK

_DEPLOYMENTS: Final = unstructured("apps", "v1", "Deployment", "deployments")
_CHECK_NAMESPACE: Final = "default"
"""Namespace of the checks: every cluster has it."""
_NAME: Final = "situate-check"
_UNREADABLE: Final = "situate-check"
"""An invalid value of the on-demand annotation."""
_APPLY: Final = "apply the output of `situate manifests`"


class CheckOutcome(Enum):
    WORKS = "works"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check, with its reason or the next step."""

    outcome: CheckOutcome
    message: str = ""


async def check_webhook(client: Client, namespace: str) -> CheckResult:
    """Check whether a new Pod gets a class. `namespace`: of the installation, if it is known."""
    try:
        configuration = await _find_configuration(client, namespace)
    except KubeError as problem:
        return CheckResult(CheckOutcome.UNKNOWN, str(problem))
    if configuration is None:
        return CheckResult(
            CheckOutcome.FAILS,
            f"no MutatingWebhookConfiguration contains the webhook of spot, so new Pods get no class; {_APPLY}",
        )
    name = configuration.metadata.name
    if not published_bundle(configuration, WEBHOOK):
        return CheckResult(
            CheckOutcome.FAILS, f"{name} has no caBundle, which the leader writes; check whether the Pods of spot run"
        )
    try:
        if not await _may_create(client, "", "pods"):
            return CheckResult(
                CheckOutcome.UNKNOWN,
                f"this account may not create Pods in namespace {_CHECK_NAMESPACE}, even as a dry run",
            )
        tried = await client.create(PODS, _check_pod(), _CHECK_NAMESPACE, dry_run=True)
    except KubeError as problem:
        return CheckResult(
            CheckOutcome.UNKNOWN, f"the dry run of a Pod in namespace {_CHECK_NAMESPACE} failed: {problem}"
        )
    if tried.metadata.annotations.get(WEBHOOK_CHECK) == "answered":
        return CheckResult(CheckOutcome.WORKS)
    return CheckResult(
        CheckOutcome.FAILS,
        f"{name} exists, but API servers get no answer, so new Pods get no class; "
        "check the Pods and EndpointSlices of its Service, and NetworkPolicies",
    )


async def check_on_demand_policy(client: Client) -> CheckResult:
    """Check whether an unreadable value of the on-demand annotation is refused."""
    try:
        if not await _may_create(client, "apps", "deployments"):
            return CheckResult(
                CheckOutcome.UNKNOWN,
                f"this account may not create Deployments in namespace {_CHECK_NAMESPACE}, even as a dry run",
            )
        await client.create(_DEPLOYMENTS, _check_deployment(), _CHECK_NAMESPACE, dry_run=True)
    except Invalid as refusal:
        if ON_DEMAND in str(refusal):
            return CheckResult(CheckOutcome.WORKS)
        return CheckResult(
            CheckOutcome.UNKNOWN, f"the dry run of a Deployment in namespace {_CHECK_NAMESPACE} failed: {refusal}"
        )
    except KubeError as problem:
        return CheckResult(
            CheckOutcome.UNKNOWN, f"the dry run of a Deployment in namespace {_CHECK_NAMESPACE} failed: {problem}"
        )
    return CheckResult(CheckOutcome.FAILS, f"the API server accepts an invalid value of {ON_DEMAND}; {_APPLY}")


async def _find_configuration(client: Client, namespace: str) -> Unstructured | None:
    """Return the configuration of the installation, or any that has the webhook."""
    try:
        found = await client.get(MUTATING, configuration_name(namespace))
    except NotFound:
        pass
    else:
        if published_bundle(found, WEBHOOK) is not None:
            return found
    try:
        page = await client.list_all(MUTATING)
    except Forbidden:
        return None
    return next((each for each in page.items if published_bundle(each, WEBHOOK) is not None), None)


async def _may_create(client: Client, group: str, resource: str) -> bool:
    """Check permission first, so that no refused write appears in the audit log."""
    attributes = ResourceAttributes(namespace=_CHECK_NAMESPACE, verb="create", group=group, resource=resource)
    return (await client.review_access(attributes)).allowed


def _check_pod() -> dict[str, Any]:
    """Build a Pod of a nonexistent ReplicaSet that meets the strictest Pod security standard."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": _NAME,
        "uid": "00000000-0000-0000-0000-000000000000",
        "controller": True,
    }
    return {
        "metadata": {"generateName": f"{_NAME}-", "annotations": {WEBHOOK_CHECK: "asked"}, "ownerReferences": [owner]},
        "spec": _pod_spec(),
    }


def _check_deployment() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": _NAME}
    return {
        "metadata": {"name": _NAME, "annotations": {ON_DEMAND: _UNREADABLE}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec()},
        },
    }


def _pod_spec() -> dict[str, Any]:
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    resources = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1m", "memory": "1Mi"}}
    container = {"name": "check", "image": "example.com/check", "resources": resources, "securityContext": security}
    return {"automountServiceAccountToken": False, "containers": [container]}

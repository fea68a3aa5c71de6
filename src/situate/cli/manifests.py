"""`situate manifests`: everything that must exist in a cluster before situate can run there.

The rights are those of `situate.cli.rights`, so what is printed here is what `situate check` asks for and what
the tests run under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from situate import __version__
from situate.cli.configured import load, scheduler_settings
from situate.cli.failures import mendable_failures
from situate.cli.options import FileOption
from situate.cli.output import DataFormat, DataOutputOption, print_objects
from situate.cli.rights import files_beside, needed_rights
from situate.objects.authorization import Permission

IMAGE = "situate"
ACCOUNT = "situate"
_LABELS = {"app.kubernetes.io/name": "situate", "app.kubernetes.io/managed-by": "situate"}
_PORT = 8080
_MEMORY_OF_SCHEDULER = "1536Mi"
"""15,000 nodes and 150,000 pods take less than 1 GiB."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the objects go and what they run."""

    namespace: str
    image: str
    replicas: int
    memory: str = "512Mi"
    """What a container may use at most."""


def manifests(
    file: FileOption,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where situate itself runs.")] = "situate",
    image: Annotated[str, typer.Option(help="The container image.")] = f"{IMAGE}:{__version__}",
    replicas: Annotated[int, typer.Option(min=1, help="One leads, the others stand by.")] = 2,
    output: DataOutputOption = DataFormat.YAML,
) -> None:
    """Print the namespace, account, rights, configuration and Deployment, for kubectl apply.

    \b
    situate manifests -f situate.yaml | kubectl apply --server-side -f -
    """
    with mendable_failures():
        configuration = load(file)
        files = {"situate.yaml": file.read_text(encoding="utf-8"), **files_beside(configuration, file)}
        where = Installation(namespace, image, replicas)
        if scheduler_settings(configuration) is not None:
            where = replace(where, memory=_MEMORY_OF_SCHEDULER)
        objects = list(installation(where, files, needed_rights(configuration, file, namespace)))
    print_objects(objects, output)


def installation(
    where: Installation, files: Mapping[str, str], rights: Sequence[Permission]
) -> Iterator[dict[str, Any]]:
    """The objects in the order in which they may be applied."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where.namespace, "labels": _LABELS}}
    yield _object("v1", "ServiceAccount", where.namespace, ACCOUNT)
    yield from access(where.namespace, rights)
    yield _object("v1", "ConfigMap", where.namespace, "situate", data=dict(files))
    yield _deployment(where)
    yield _object(
        "v1",
        "Service",
        where.namespace,
        "situate",
        spec={"selector": _LABELS, "ports": [{"name": "http", "port": _PORT, "targetPort": "http"}]},
    )


def access(account_namespace: str, rights: Iterable[Permission]) -> Iterator[dict[str, Any]]:
    """A role and its binding for each namespace concerned, and one for the whole cluster.

    Named after the account's namespace, so that a second installation in the cluster does not take them over.
    """
    by_namespace: dict[str | None, list[Permission]] = defaultdict(list)
    for right in rights:
        by_namespace[right.namespace].append(right)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": account_namespace}
    group = "rbac.authorization.k8s.io"
    for namespace, of_namespace in sorted(by_namespace.items(), key=lambda item: item[0] or ""):
        kind = "Role" if namespace else "ClusterRole"
        name = f"situate:{account_namespace}"
        yield _object(f"{group}/v1", kind, namespace, name, rules=[_rule(right) for right in of_namespace])
        yield _object(
            f"{group}/v1",
            f"{kind}Binding",
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[subject],
        )


def _rule(right: Permission) -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
    if right.name:
        rule["resourceNames"] = [right.name]
    return rule


def _object(api_version: str, kind: str, namespace: str | None, name: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | {"labels": _LABELS}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _deployment(where: Installation) -> dict[str, Any]:
    container = {
        "name": "situate",
        "image": where.image,
        "args": ["run", "-f", "/etc/situate/situate.yaml"],
        "env": [{"name": "SITUATE_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": where.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/situate", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": "situate"}}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _LABELS},
            }
        ],
    }
    spec = {
        "replicas": where.replicas,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", where.namespace, "situate", spec=spec)

"""Implement `situate manifests`: print every object that a cluster needs before situate can run there.

The rights are those of `situate.cli.check.rights`: the same that `situate check` checks and that the tests run under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from situate import __version__
from situate.cli.check.rights import needed_rights, referenced_files
from situate.cli.input.configuration import (
    assignments_of,
    configuration_without_file,
    load_configuration,
    scheduler_settings,
    sharding_entries,
    spot_settings,
    vm_settings,
)
from situate.cli.input.products import Product
from situate.cli.manifests.archive import NAME as ARCHIVE
from situate.cli.manifests.archive import server_arguments, server_deployment, server_rights, server_service_spec
from situate.cli.manifests.pods import field_variable, set_arguments
from situate.cli.manifests.sharding import NAME as SHARD
from situate.cli.manifests.sharding import (
    executor_deployment,
    executor_name,
    executor_rights,
    fencing_objects,
    lease_objects,
    leftover_notes,
    shard_assignments,
    with_archive_url,
)
from situate.cli.manifests.spot import admission_objects, deployment_with_webhook
from situate.cli.manifests.vm import SERVICE as PERMITS
from situate.cli.manifests.vm import check_files, deployment_with_permits, leader_objects, permit_service_spec
from situate.cli.manifests.vm_agent import FILE as AGENT_FILE
from situate.cli.manifests.vm_agent import NAME as VM_AGENT
from situate.cli.manifests.vm_agent import agent_arguments, agent_daemon_set, agent_rights, check_agent_files
from situate.cli.manifests.vm_machines import NAME as VM_MACHINES
from situate.cli.manifests.vm_machines import machines_arguments, machines_rights
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import DataFormat
from situate.cli.terminal.output import print_objects
from situate.cli.terminal.streams import print_error
from situate.objects.reviews.authorization import Permission
from situate.objects.settings.section import NamespaceName, format_value, parse_section
from situate.runtime.configuration.file import Configuration
from situate.spot.model.object_names import NAME as SPOT

ACCOUNT = "situate"
Object: TypeAlias = dict[str, Any]
_NAMESPACE_LABELS = {"app.kubernetes.io/name": "situate", "app.kubernetes.io/managed-by": "situate"}
"""Labels of the namespace, independent of the product: two products may share one namespace."""
_PORT = 8080
_MEMORY_OF_SCHEDULER = "1536Mi"
"""Memory limit of a scheduler. 15,000 nodes and 150,000 Pods take less than 1 GiB."""


_PRODUCTS_WITHOUT_FILE = frozenset({Product.ARCHIVE, Product.VM_MACHINES})


@dataclass(frozen=True, slots=True)
class Installation:
    """Namespace, image and arguments of an installation."""

    namespace: str
    image: str
    replicas: int
    memory: str = "512Mi"
    """Memory limit of a container."""
    name: str = ACCOUNT
    """Name of the Deployment, the ServiceAccount and the other objects."""
    arguments: tuple[str, ...] = ("run", "-f", "/etc/situate/situate.yaml")

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/managed-by": "situate"}


def show(
    product: Product | None,
    file: Path | None,
    where: Installation,
    resources: Sequence[str],
    executor_image: str,
    output: DataFormat,
) -> None:
    """Print the objects, and on standard error the objects of earlier versions to delete."""
    with report_failures():
        _check_names(where)
        _check_files(product, file)
        objects = manifest_objects(product, file, where, resources, executor_image)
        entries = (
            sharding_entries(load_configuration(file))
            if file is not None and product in (None, Product.SHARDING)
            else ()
        )
    print_objects(objects, output)
    for note in leftover_notes(entries):
        print_error(note)


def _check_names(where: Installation) -> None:
    """Raise `WrongInput` for a namespace or an image that the cluster would refuse object by object."""
    kind: Any = NamespaceName
    _, mistakes = parse_section(where.namespace, kind, "--installation-namespace")
    if mistakes:
        raise WrongInput(str(mistakes[0]))
    if not where.image or any(each.isspace() for each in where.image):
        raise WrongInput(
            f"--image: found {format_value(where.image)}, allowed: an image reference, such as situate:{__version__}"
        )


def _check_files(product: Product | None, file: Path | None) -> None:
    """Raise `WrongInput` if Pods would need files that exist only on this computer.

    Raises the errors of reading `file`, too.
    """
    if product is Product.VM_AGENT:
        check_agent_files(file)
    if product is None and file is not None and (vm := vm_settings(load_configuration(file))) is not None:
        check_files(vm)


def manifest_objects(
    product: Product | None,
    file: Path | None,
    where: Installation,
    resources: Sequence[str] = (),
    executor_image: str = "",
) -> list[Object]:
    """Return all objects, in the order in which they may be applied.

    If `product` is None, the products are those of the configuration file. Raises the errors of reading the file, and
    `WrongInput`.
    """
    if product in _PRODUCTS_WITHOUT_FILE and file is not None:
        raise WrongInput(f"{product} is installed without a configuration file; leave -f {file} out")
    if product is Product.ARCHIVE:
        return [*_archive_objects(where, resources)]
    if product is Product.SHARDING:
        return [*_sharding_objects(where, file, resources, executor_image)]
    if product is Product.VM_AGENT:
        return [*_vm_agent_objects(where, file)]
    if product is Product.VM_MACHINES:
        return [*_vm_emulator_objects(where)]
    if product is not None:
        return _single_product_objects(product, file, where)
    if file is not None:
        return _combined_objects(file, where)
    raise WrongInput(f"neither a configuration nor a product is named: give -f FILE, or one of {', '.join(Product)}")


def _combined_objects(file: Path, where: Installation) -> list[Object]:
    """Return all products of a configuration file, in one Deployment."""
    configuration = load_configuration(file)
    files = {"situate.yaml": file.read_text(encoding="utf-8"), **referenced_files(configuration, file)}
    if scheduler_settings(configuration) is not None or vm_settings(configuration) is not None:
        where = replace(where, memory=_MEMORY_OF_SCHEDULER)
    return list(installation_objects(where, configuration, files, needed_rights(configuration, file, where.namespace)))


def _single_product_objects(product: Product, file: Path | None, where: Installation) -> list[Object]:
    """Return one product whose settings are arguments of its process, with only the objects that it needs."""
    given = assignments_of(file, str(product))
    configuration = configuration_without_file(given)
    settings = spot_settings(configuration)
    if settings is not None and settings.prices.file is not None:
        raise WrongInput(
            f"spot.prices.file {settings.prices.file}: arguments cannot carry a file; put it into a ConfigMap under "
            "the key prices.yaml and set spot.prices.configMap, or print all products with situate manifests -f"
        )
    where = replace(where, name=SPOT, arguments=("run", *set_arguments(given)))
    return list(installation_objects(where, configuration, {}, needed_rights(configuration, Path(), where.namespace)))


def _archive_objects(where: Installation, resources: Sequence[str]) -> Iterator[Object]:
    """Return the server of live and archived objects."""
    where = replace(where, name=ARCHIVE, arguments=server_arguments(resources))
    yield from _base_objects(where, server_rights(resources))
    yield server_deployment(_deployment(where, mounted=False))
    yield _object("v1", "Service", where, where.namespace, spec=server_service_spec(where.labels))


def _sharding_objects(where: Installation, file: Path | None, resources: Sequence[str], image: str) -> Iterator[Object]:
    """Return supervisors, and the executors of each."""
    given = shard_assignments(file, resources, where.namespace)
    configuration = configuration_without_file(given)
    where = replace(where, name=SHARD, arguments=("run", *set_arguments(given)))
    yield from installation_objects(where, configuration, {}, needed_rights(configuration, Path(), where.namespace))
    ports = [{"name": "http", "port": _PORT, "targetPort": "http"}]
    yield _object("v1", "Service", where, where.namespace, spec={"selector": where.labels, "ports": ports})
    for entry in sharding_entries(configuration):
        name, namespace = executor_name(entry), entry.executor_namespace or where.namespace
        executors = replace(where, name=name, namespace=namespace, image=image)
        yield _object("v1", "ServiceAccount", executors, namespace)
        yield from access_objects(executors, executor_rights(entry, where.namespace))
        yield executor_deployment(_deployment(executors, mounted=False), entry)


def _vm_agent_objects(where: Installation, file: Path | None) -> Iterator[Object]:
    """Return the agents of VMs, one on each node. `file` is their configuration."""
    where = replace(where, name=VM_AGENT, arguments=agent_arguments(file, _PORT, where.namespace))
    rights = agent_rights(file, where.namespace)
    yield from _base_objects(where, rights)
    if file is not None:
        text = file.read_text(encoding="utf-8")
        yield _object("v1", "ConfigMap", where, where.namespace, data={AGENT_FILE: text})
    yield agent_daemon_set(_deployment(where, mounted=file is not None))


def _vm_emulator_objects(where: Installation) -> Iterator[Object]:
    """Return the emulator that runs VMs without a hypervisor."""
    where = replace(where, name=VM_MACHINES, arguments=machines_arguments(where.namespace, _PORT))
    yield from _base_objects(where, machines_rights(where.namespace))
    yield _deployment(where, mounted=False)


def installation_objects(
    where: Installation, configuration: Configuration, files: Mapping[str, str], rights: Sequence[Permission]
) -> Iterator[Object]:
    """Return the objects in the order in which they may be applied.

    `files` is the content of the ConfigMap; without files there is none.
    """
    spot = spot_settings(configuration)
    yield from _base_objects(where, rights)
    if files:
        yield _object("v1", "ConfigMap", where, where.namespace, data=dict(files))
    deployment = _deployment(where, mounted=bool(files))
    if spot is not None:
        leases = configuration.runtime.leader_election.namespace or where.namespace
        yield from admission_objects(where.namespace, leases, where.labels, spot)
        deployment = deployment_with_webhook(deployment, spot)
    vm = vm_settings(configuration)
    if vm is not None:
        leases = configuration.runtime.leader_election.namespace or where.namespace
        yield from leader_objects(where.namespace, leases, where.labels, vm)
        deployment = deployment_with_permits(deployment, vm)
        yield _object("v1", "Service", where, where.namespace, PERMITS, spec=permit_service_spec(where.labels, vm))
    if entries := sharding_entries(configuration):
        leases = configuration.runtime.leader_election.namespace or where.namespace
        yield from lease_objects(entries, leases, where.labels)
        account = f"{where.namespace}:{where.name}"
        yield from fencing_objects(entries, account, where.namespace, leases, where.labels)
        deployment = with_archive_url(deployment, entries)
    yield deployment
    if files:
        ports = [{"name": "http", "port": _PORT, "targetPort": "http"}]
        yield _object("v1", "Service", where, where.namespace, spec={"selector": where.labels, "ports": ports})


def _base_objects(where: Installation, rights: Iterable[Permission]) -> Iterator[Object]:
    """Return the objects that every installation begins with: namespace, account and roles."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where.namespace, "labels": _NAMESPACE_LABELS}}
    yield _object("v1", "ServiceAccount", where, where.namespace)
    yield from access_objects(where, rights)


def access_objects(where: Installation, rights: Iterable[Permission]) -> Iterator[Object]:
    """Return a role and a binding for each namespace concerned, and one pair for the whole cluster.

    Names contain the account's namespace, so that a second installation in the cluster does not take over the roles.
    """
    by_namespace: dict[str | None, list[Permission]] = defaultdict(list)
    for right in rights:
        by_namespace[right.namespace].append(right)
    subject = {"kind": "ServiceAccount", "name": where.name, "namespace": where.namespace}
    group = "rbac.authorization.k8s.io"
    for namespace, of_namespace in sorted(by_namespace.items(), key=lambda item: item[0] or ""):
        kind = "Role" if namespace else "ClusterRole"
        name = f"{where.name}:{where.namespace}"
        rules = [_rule(right) for right in of_namespace]
        yield _object(f"{group}/v1", kind, where, namespace, name, rules=rules)
        yield _object(
            f"{group}/v1",
            f"{kind}Binding",
            where,
            namespace,
            name,
            roleRef={"apiGroup": group, "kind": kind, "name": name},
            subjects=[subject],
        )


def _rule(right: Permission) -> Object:
    rule: Object = {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
    if right.name:
        rule["resourceNames"] = [right.name]
    return rule


def _object(
    api_version: str, kind: str, where: Installation, namespace: str | None, name: str = "", **content: Any
) -> Object:
    """Return an object, named after the installation unless `name` is given."""
    metadata: Object = {"name": name or where.name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata | {"labels": where.labels}, **content}


def _deployment(where: Installation, *, mounted: bool) -> Object:
    container: Object = {
        "name": where.name,
        "image": where.image,
        "args": list(where.arguments),
        "env": [field_variable("SITUATE_NAMESPACE", "metadata.namespace")],
        "ports": [{"name": "http", "containerPort": _PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": where.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    volumes = {"volumes": [{"name": "configuration", "configMap": {"name": where.name}}]} if mounted else {}
    pod: Object = {
        "serviceAccountName": where.name,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        **volumes,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": where.labels},
            }
        ],
    }
    if mounted:
        container["volumeMounts"] = [{"name": "configuration", "mountPath": "/etc/situate", "readOnly": True}]
    spec = {
        "replicas": where.replicas,
        "selector": {"matchLabels": where.labels},
        "template": {"metadata": {"labels": where.labels}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", where, where.namespace, spec=spec)

"""Rows of kinds that nothing here acts upon: columns (`*` for those of -o wide), and cells but the age."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api
from tests.contract.things import container, core, group, template

Json = dict[str, Any]

ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io"
RBAC = "rbac.authorization.k8s.io"
ROLE = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
USERS = [
    {"kind": "User", "name": "ann", "apiGroup": RBAC},
    {"kind": "User", "name": "bob", "apiGroup": RBAC},
    {"kind": "ServiceAccount", "name": "sa", "namespace": "default"},
]
ONCE = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container()]}}
RULE = {"apiGroups": ["x.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["foos"]}
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
PATHS = [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]
WORKLOAD = ["*Containers", "*Images", "*Selector"]
IMAGE = container()["image"]


@pytest.mark.parametrize(
    ("api_version", "resource", "body", "columns", "cells"),
    [
        (
            "apps/v1",
            "daemonsets",
            {
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": template({"a": "b"}, nodeSelector={"c": "d"}),
                }
            },
            [
                *("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
                *WORKLOAD,
            ],
            [0, 0, 0, 0, 0, "c=d", "app", IMAGE, "a=b"],
        ),
        (
            "batch/v1",
            "cronjobs",
            {"spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": {"template": ONCE}}}},
            ["Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age", *WORKLOAD],
            ["* * * * *", "<none>", "True", 0, "<none>", "app", IMAGE, "<none>"],
        ),
        (
            "storage.k8s.io/v1",
            "storageclasses",
            {"provisioner": "x"},
            ["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
            ["x", "Delete", "Immediate", False],
        ),
        (
            "networking.k8s.io/v1",
            "ingresses",
            {"spec": {"rules": [{"host": f"{each}.example", "http": {"paths": PATHS}} for each in "abcde"]}},
            ["Name", "Class", "Hosts", "Address", "Ports", "Age"],
            ["<none>", "a.example,b.example,c.example + 2 more...", "", "80"],
        ),
        (
            "networking.k8s.io/v1",
            "ingressclasses",
            {"spec": {"controller": "a.example/c", "parameters": {"apiGroup": "b.example", "kind": "K", "name": "n"}}},
            ["Name", "Controller", "Parameters", "Age"],
            ["a.example/c", "K.b.example/n"],
        ),
        (
            "networking.k8s.io/v1",
            "networkpolicies",
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
            ["Name", "Pod-Selector", "Age"],
            ["a=b"],
        ),
        (
            f"{RBAC}/v1",
            "rolebindings",
            {"roleRef": ROLE, "subjects": USERS},
            ["Name", "Role", "Age", "*Users", "*Groups", "*ServiceAccounts"],
            ["ClusterRole/view", "ann, bob", "", "default/sa"],
        ),
        (
            "v1",
            "podtemplates",
            {"template": template({"a": "b"})},
            ["Name", "Containers", "Images", "Pod Labels"],
            ["app", IMAGE, "a=b"],
        ),
        (
            "discovery.k8s.io/v1",
            "endpointslices",
            {"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.1.1.1"]}]},
            ["Name", "AddressType", "Ports", "Endpoints", "Age"],
            ["IPv4", "80", "10.1.1.1"],
        ),
        (
            "v1",
            "endpoints",
            {"subsets": [{"addresses": [{"ip": f"10.1.1.{n}"} for n in range(1, 6)], "ports": [{"port": 80}]}]},
            ["Name", "Endpoints", "Age"],
            ["10.1.1.1:80,10.1.1.2:80,10.1.1.3:80 + 2 more..."],
        ),
        ("node.k8s.io/v1", "runtimeclasses", {"handler": "h"}, ["Name", "Handler", "Age"], ["h"]),
        (
            "admissionregistration.k8s.io/v1",
            "validatingadmissionpolicies",
            {"spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}},
            ["Name", "Validations", "ParamKind", "Age"],
            [1, "<unset>"],
        ),
        (
            "admissionregistration.k8s.io/v1",
            "validatingadmissionpolicybindings",
            {"spec": {"policyName": "nobody", "validationActions": ["Deny"]}},
            ["Name", "PolicyName", "ParamRef", "Age"],
            ["nobody", "<unset>"],
        ),
    ],
)
async def test_rows(
    api: Api, namespace: str, api_version: str, resource: str, body: Json, columns: list[str], cells: list[Any]
) -> None:
    clustered = resource in ("storageclasses", "ingressclasses", "runtimeclasses") or resource.startswith("validating")
    place = "" if clustered else namespace
    path = core(place, resource) if api_version == "v1" else group(api_version, place, resource)
    (await api.post(path, {"metadata": {"name": namespace}, **body})).ok(201)
    table = (await api.call("GET", f"{path}/{namespace}", accept=ACCEPT)).ok()
    assert [("*" if each["priority"] else "") + each["name"] for each in table["columnDefinitions"]] == columns
    (row,) = table["rows"]
    shown = [cell for name, cell in zip(columns, row["cells"], strict=True) if name != "Age"]
    assert shown == [namespace, *cells]
    (await api.delete(f"{path}/{namespace}")).ok()

"""Services: their addresses, and the endpoints that are kept for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Api, causes
from tests.contract.things import core, group, pod, replicaset
from tests.contract.waiting import eventually
from tests.contract.work import Work, name

Json = dict[str, Any]


def service(name: str, *ports: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": list(ports or ({"port": 80},)), **spec}}


async def create(api: Api, namespace: str, body: Json) -> Json:
    return dict((await api.post(core(namespace, "services"), body)).ok(201)["spec"])


class TestAddresses:
    async def test_each_has_its_own(self, api: Api, namespace: str) -> None:
        specs = [await create(api, namespace, service(each)) for each in "abc"]
        addresses = [spec["clusterIP"] for spec in specs]
        assert len(set(addresses)) == 3
        assert all(address.startswith("10.0.") for address in addresses)
        assert [spec["clusterIPs"] for spec in specs] == [[address] for address in addresses]
        assert (specs[0]["ipFamilies"], specs[0]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")

    @pytest.mark.parametrize(
        ("selector", "families", "policy"),
        [
            pytest.param({"a": "b"}, ["IPv4"], "SingleStack", id="with a selector"),
            pytest.param({}, ["IPv4", "IPv6"], "RequireDualStack", id="without one"),
        ],
    )
    async def test_headless(self, api: Api, namespace: str, selector: Json, families: list[str], policy: str) -> None:
        spec = await create(api, namespace, service("a", clusterIP="None", selector=selector))
        assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (families, policy)

    async def test_external_names_have_none(self, api: Api, namespace: str) -> None:
        spec = await create(api, namespace, service("a", type="ExternalName", externalName="a.example"))
        assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & spec.keys()

    @pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
    async def test_ports_of_nodes(self, api: Api, namespace: str, kind: str) -> None:
        ports = [{"name": each, "port": number} for number, each in enumerate("ab", 80)]
        spec = await create(api, namespace, service("a", *ports, type=kind))
        numbers = [port["nodePort"] for port in spec["ports"]]
        assert len(set(numbers)) == 2
        assert all(30000 <= number <= 32767 for number in numbers)
        path = core(namespace, "services", "a")
        kept = (await api.put(path, service("a", *ports, type=kind))).ok()["spec"]
        assert [port["nodePort"] for port in kept["ports"]] == numbers
        assert kept["clusterIP"] == spec["clusterIP"]
        plain = (await api.patch(path, {"spec": {"type": "ClusterIP"}})).ok()["spec"]
        assert all("nodePort" not in port for port in plain["ports"])
        assert "externalTrafficPolicy" not in plain

    @pytest.mark.parametrize(
        ("address", "field", "problem"),
        [
            (
                "192.168.1.1",
                "spec.clusterIPs",
                'Invalid value: ["192.168.1.1"]: failed to allocate IP 192.168.1.1: the provided network does not '
                "match the current range",
            ),
            (
                "10.0.0.1",
                "spec.clusterIPs",
                'Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already allocated',
            ),
            (
                "1.2.3",
                "spec.clusterIPs[0]",
                'Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ),
        ],
    )
    async def test_not_to_be_had(self, api: Api, namespace: str, address: str, field: str, problem: str) -> None:
        answer = await api.post(core(namespace, "services"), service("a", clusterIP=address))
        assert answer.status == 422
        assert causes(answer) == [("FieldValueInvalid", field, problem)]

    async def test_a_port_that_is_taken(self, api: Api, namespace: str) -> None:
        spec = await create(api, namespace, service("a", type="NodePort"))
        taken = spec["ports"][0]["nodePort"]
        body = service("b", {"port": 80, "nodePort": taken}, type="NodePort")
        answer = await api.post(core(namespace, "services"), body)
        problem = f"Invalid value: {taken}: provided port is already allocated"
        assert causes(answer) == [("FieldValueInvalid", "spec.ports[0].nodePort", problem)]

    async def test_it_stays(self, api: Api, namespace: str) -> None:
        spec = await create(api, namespace, service("a"))
        path = core(namespace, "services", "a")
        answer = await api.patch(path, {"spec": {"clusterIP": "10.0.255.250", "clusterIPs": ["10.0.255.250"]}})
        assert answer.status == 422
        assert "may not change once set" in answer.body["message"]
        assert (await api.patch(path, {"spec": {"clusterIP": None}})).ok()["spec"]["clusterIP"] == spec["clusterIP"]


class TestEndpoints:
    async def test_the_endpoint_of_a_released_pod_stays(self, work: Work) -> None:
        body = replicaset("rs", 1)
        body["spec"]["template"]["metadata"]["labels"]["tier"] = "front"
        await create(work.api, work.namespace, service("s", selector={"tier": "front"}))
        await work.create("replicasets", body)
        (only,) = await work.settled(1)
        await eventually(lambda: self.targets(work), lambda targets: targets == {name(only)})
        await work.label(name(only), app="out")
        await eventually(lambda: self.targets(work), lambda targets: len(targets) == 2)
        assert name(only) in await self.targets(work)

    async def test_a_slice(self, work: Work, hosts: list[str]) -> None:
        body = pod("p", meta={"labels": {"tier": "front"}}, nodeName=hosts[0])
        body["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 8080}]
        (await work.api.post(core(work.namespace, "pods"), body)).ok(201)
        (made,) = await work.settled(1)
        ports = [{"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 81}]
        await create(work.api, work.namespace, service("s", *ports, selector={"tier": "front"}))
        (found,) = await eventually(lambda: self.slices(work), lambda slices: slices and slices[0]["endpoints"])
        assert found["metadata"]["name"].startswith("s-")
        assert found["metadata"]["labels"].items() >= {
            ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
            ("kubernetes.io/service-name", "s"),
        }
        (reference,) = found["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["controller"]) == ("Service", "s", True)
        assert found["addressType"] == "IPv4"
        assert sorted((port["name"], port["port"], port["protocol"]) for port in found["ports"]) == [
            ("a", 8080, "TCP"),
            ("b", 81, "TCP"),
        ]
        assert found["endpoints"] == [
            {
                "addresses": [made["status"]["podIP"]],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": hosts[0],
                "targetRef": {
                    "kind": "Pod",
                    "namespace": work.namespace,
                    "name": "p",
                    "uid": made["metadata"]["uid"],
                },
            }
        ]

    async def test_it_follows_its_pods_and_goes_with_its_service(self, work: Work) -> None:
        await create(work.api, work.namespace, service("s", selector={"app": "rs"}))
        await work.create("replicasets", replicaset("rs", 3))
        pods = {name(each) for each in await work.settled(3)}
        await eventually(lambda: self.targets(work), lambda targets: targets == pods)
        await work.scale("replicasets", "rs", 1)
        (left,) = await work.settled(1)
        await eventually(lambda: self.targets(work), lambda targets: targets == {name(left)})
        change = {"spec": {"selector": {"app": "nobody"}}}
        (await work.api.patch(core(work.namespace, "services", "s"), change)).ok()
        await eventually(lambda: self.targets(work), lambda targets: not targets)
        (await work.api.delete(core(work.namespace, "services", "s"))).ok()
        await eventually(lambda: self.slices(work), lambda slices: not slices)

    @staticmethod
    async def slices(work: Work) -> list[Json]:
        path = group("discovery.k8s.io/v1", work.namespace, "endpointslices")
        return list((await work.api.get(path)).ok()["items"])

    @classmethod
    async def targets(cls, work: Work) -> set[str]:
        return {each["targetRef"]["name"] for found in await cls.slices(work) for each in found["endpoints"] or []}

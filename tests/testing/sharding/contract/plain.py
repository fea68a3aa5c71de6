"""An executor that shares no code with situate: the contract page, in a page of plain Python.

`python -m tests.testing.sharding.contract.plain [DEFECT …]`. A defect leaves out what a rule of the contract asks for:
`no-renewal`, `no-fence` (writes without preconditions), `no-ack`, `works-on` (after the assignment was taken away).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

import yaml

PREFIX = "sharding.situate.dev/"
DEFECTS = set(sys.argv[1:])
POD, NAMESPACE, UID = (os.environ[f"POD_{name}"] for name in ("NAME", "NAMESPACE", "UID"))
LEASE_S, RENEW_S, DEADLINE_S = (
    float(os.environ[f"SITUATE_{name}"].rstrip("s")) for name in ("LEASE_DURATION", "RENEW_INTERVAL", "RENEW_DEADLINE")
)
GROUP, VERSION, PLURAL = os.environ["SITUATE_RESOURCE"].split("/")
OBJECTS = f"/apis/{GROUP}/{VERSION}/namespaces/{os.environ['SITUATE_NAMESPACE']}/{PLURAL}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = f"{os.environ['SITUATE_POOL']}.{POD}.{UID[:8]}"
with open(os.environ["KUBECONFIG"]) as file:
    CONFIG = yaml.safe_load(file)
SERVER, TOKEN = CONFIG["clusters"][0]["cluster"]["server"], CONFIG["users"][0]["user"]["token"]


def ask(method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S / 2) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, None
    except OSError:
        return 0, None


class Plain:
    """Everything in one thread: what has no answer in time is tried again."""

    def __init__(self) -> None:
        self.renewed_at = self.tried_at = self.listed_at = -1e9
        self.lost = False
        self.ending = False
        self.own: dict[str, tuple[int, int, float]] = {}
        """By name: the epoch, how often it was written, and when."""
        self.forgone: dict[str, int] = {}
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ending", True))

    def run(self) -> None:
        held = True
        while not (self.ending and not held):
            now = time.monotonic()
            if now - self.tried_at >= RENEW_S:
                self.tried_at = now
                self.renew(UID)
            valid = now - self.renewed_at < DEADLINE_S or "no-renewal" in DEFECTS
            if not valid:
                self.lost = self.lost or self.renewed_at > 0
                self.own.clear()
            elif now - self.listed_at >= 0.2:
                self.listed_at = now
                held = self.look()
                self.work()
            time.sleep(0.05)
        self.renew("")

    def renew(self, holder: str) -> None:
        status, found = ask("GET", f"{LEASES}/{LEASE}")
        if "no-renewal" in DEFECTS and status == 200:
            return
        sent_at, now = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        report = {"capacity": 10, "open": len(self.own), "draining": self.ending}
        notes = {PREFIX + "executor": POD, PREFIX + "executor-uid": UID, PREFIX + "status": json.dumps(report)}
        lease: dict[str, Any] = {
            "metadata": {"name": LEASE, "labels": {PREFIX + "pool": os.environ["SITUATE_POOL"]}, "annotations": notes},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": int(LEASE_S),
                "acquireTime": now,
                "renewTime": now,
            },
        }
        if status == 200:
            lease["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            status, _ = ask("PUT", f"{LEASES}/{LEASE}", lease)
        else:
            status, _ = ask("POST", LEASES, lease)
        if status in (200, 201):
            self.renewed_at = sent_at

    def look(self) -> bool:
        """Takes up what is ours and gives up what is to be; whether anything is ours."""
        status, found = ask("GET", f"{OBJECTS}?labelSelector={PREFIX}executor={POD}")
        if status != 200:
            return True
        mine = {each["metadata"]["name"]: each for each in found["items"] if self.is_mine(each)}
        if self.lost:  # found under a Lease that was lost: somebody else may be about to get it
            self.lost = False
            self.forgone = {each["metadata"]["uid"]: epoch_of(each) for each in mine.values()}
        for name, each in mine.items():
            notes, epoch = each["metadata"]["annotations"], epoch_of(each)
            asked = PREFIX + "drain" in notes and "no-ack" not in DEFECTS
            if asked or self.ending or self.forgone.get(each["metadata"]["uid"], 0) >= epoch:
                self.own.pop(name, None)
                self.release(each)
            elif self.own.get(name, (0, 0, 0.0))[0] != epoch:
                status, fresh = ask("GET", f"{OBJECTS}/{name}")  # the list may be old: is it still so?
                if status == 200 and self.is_mine(fresh) and epoch_of(fresh) == epoch:
                    self.own[name] = (epoch, 0, 0.0)
        if "works-on" not in DEFECTS:
            self.own = {name: at for name, at in self.own.items() if name in mine}
        return bool(mine)

    def is_mine(self, each: Any) -> bool:
        notes = each["metadata"].get("annotations", {})
        assigned = each["spec"].get("assignedTo") == POD and notes.get(PREFIX + "executor-uid") == UID
        return assigned and not each.get("status", {}).get("completedAt")

    def release(self, each: Any) -> None:
        notes, labels = each["metadata"]["annotations"], each["metadata"].get("labels", {})
        gone = [f"/metadata/annotations/{escaped('executor-uid')}", "/spec/assignedTo"]
        gone += [f"/metadata/annotations/{escaped('drain')}"] if PREFIX + "drain" in notes else []
        gone += [f"/metadata/labels/{escaped('executor')}"] if PREFIX + "executor" in labels else []
        self.patch(each, [{"op": "remove", "path": path} for path in gone], "")

    def work(self) -> None:
        for name, (epoch, count, at) in [*self.own.items()]:
            if time.monotonic() - at < 0.5:
                continue
            status, each = ask("GET", f"{OBJECTS}/{name}")
            if status != 200:
                continue
            wanted = {**each.get("status", {}), "by": UID, "count": count}
            if count == each["spec"].get("steps"):
                wanted |= {"completedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "successful": True}
            if DEFECTS & {"no-fence", "works-on"}:
                ask("PATCH", f"{OBJECTS}/{name}/status", {"status": wanted}, "application/merge-patch+json")
            elif epoch_of(each) == epoch and self.is_mine(each):
                self.patch(each, [{"op": "add", "path": "/status", "value": wanted}], "/status")
            self.own[name] = (epoch, count + 1, time.monotonic())

    def patch(self, each: Any, operations: list[Any], subresource: str) -> None:
        metadata = each["metadata"]
        tests = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "test", "path": f"/metadata/annotations/{escaped('epoch')}", "value": str(epoch_of(each))},
            {"op": "test", "path": f"/metadata/annotations/{escaped('executor-uid')}", "value": UID},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        ]
        path = f"{OBJECTS}/{metadata['name']}{subresource}"
        ask("PATCH", path, [*tests, *operations], "application/json-patch+json")


def epoch_of(each: Any) -> int:
    return int(each["metadata"].get("annotations", {}).get(PREFIX + "epoch", "0"))


def escaped(name: str) -> str:
    return (PREFIX + name).replace("/", "~1")


if __name__ == "__main__":
    Plain().run()

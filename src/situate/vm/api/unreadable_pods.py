"""Last known values of a runner Pod whose annotations have become unreadable (D18)."""

from __future__ import annotations

from dataclasses import replace

from situate.objects.kinds import pods as objects
from situate.vm.api.machines import ObservedMachine
from situate.vm.api.parse_errors import ParseError, Place
from situate.vm.api.pods import is_migratable, no_overcommit, role_of
from situate.vm.api.quantities import read_guest, read_overcommit, read_usage
from situate.vm.api.well_known import OVERCOMMIT, USAGE
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.model.pods_and_nodes import Machine, Pod
from situate.vm.model.policy import Rules


def pod_with_known_reservation(known: Pod, pod: objects.Pod, rules: Rules, seen: ObservedMachine | None) -> Pod:
    """Return the known Pod with its reserved amounts unchanged.

    The size of its VM and the state of its migration follow all readable sources. Otherwise other VMs could be granted
    capacity that this VM uses (I1, I2). Written approvals do not count as seen, because the annotations hold them.
    """
    assert known.machine is not None, f"{known.ref} has no known VM"
    used = known.used if seen is None else known.used.maximum(seen.used)
    annotations, about = pod.metadata.annotations, f"pod {pod.metadata.namespace}/{pod.metadata.name}"
    if GUEST in annotations:
        guest = read_guest(annotations[GUEST], Place.annotation(about, GUEST), rules.resources)
        used = used if isinstance(guest, ParseError) else used.maximum(guest.use)
    if USAGE in annotations:
        usage = read_usage(annotations[USAGE], Place.annotation(about, USAGE), rules.resources)
        used = used if isinstance(usage, ParseError) else used.maximum(usage)
    overcommit = no_overcommit(rules)
    if OVERCOMMIT in annotations:
        found = read_overcommit(annotations[OVERCOMMIT], Place.annotation(about, OVERCOMMIT), rules.resources)
        overcommit = known.overcommit if isinstance(found, ParseError) else found
    machine = _updated_machine(known.machine, pod, seen)
    approved = known.approved and rules.compat
    return replace(known, used=used, overcommit=overcommit, machine=machine, approved=approved)


def _updated_machine(known: Machine, pod: objects.Pod, seen: ObservedMachine | None) -> Machine:
    role = role_of(pod)
    machine = replace(known, role=role, migratable=is_migratable(pod, role))
    if seen is None:
        return machine
    return replace(machine, own=seen.own, phase=seen.phase, evacuation=seen.notes.evacuation)

"""`situate crds`: the custom resources that the products place."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, assert_never

import typer

from situate.cli.formats import DataFormat
from situate.cli.options import DataOutputOption
from situate.cli.output import print_objects
from situate.vm.machines import crds as vm_crds
from situate.vpod import crds as vpod_crds


class Placed(StrEnum):
    """Products whose objects are of kinds that a cluster does not have by itself."""

    VPOD = "vpod"
    VM = "vm"


def crds(
    products: Annotated[
        list[Placed] | None, typer.Argument(metavar="vpod|vm", help="Of these products only.", show_default=False)
    ] = None,
    output: DataOutputOption = DataFormat.YAML,
) -> None:
    """Print the custom resource definitions, for kubectl apply.

    ConsumerGroup, Consumer and KafkaSource have the shape of Knative's, VirtualMachine and
    VirtualMachineMigration that of NeonVM's. A cluster with Knative or NeonVM has its own: leave these.

    \b
    situate crds | kubectl apply --server-side -f -
    situate crds vm | kubectl apply --server-side -f -
    """
    chosen = list(dict.fromkeys(products or Placed))
    if output is DataFormat.YAML:
        sys.stdout.write("".join(f"# {_origin(each)}\n" for each in chosen))
    print_objects([definition for each in chosen for definition in _definitions(each)], output)


def _definitions(product: Placed) -> tuple[dict[str, object], ...]:
    match product:
        case Placed.VPOD:
            return vpod_crds.definitions()
        case Placed.VM:
            return vm_crds.definitions()
        case _:
            assert_never(product)


def _origin(product: Placed) -> str:
    match product:
        case Placed.VPOD:
            return f"ConsumerGroup, Consumer and KafkaSource as in eventing-kafka-broker {vpod_crds.RELEASE}"
        case Placed.VM:
            return f"VirtualMachine and VirtualMachineMigration as in neondatabase/autoscaling {vm_crds.RELEASE}"
        case _:
            assert_never(product)

"""Implement `situate crds`: print the custom resource definitions of the products."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import assert_never

from situate.cli.input.products import CrdProduct
from situate.cli.terminal.formats import DataFormat
from situate.cli.terminal.output import print_objects
from situate.vm.emulator import crds as vm_crds
from situate.vpod.sources import crds as vpod_crds


def show(products: Sequence[CrdProduct], output: DataFormat) -> None:
    """Print the definitions of the given products, or of all."""
    chosen = list(dict.fromkeys(products or CrdProduct))
    if output is DataFormat.YAML:
        sys.stdout.write("".join(f"# {_origin(each)}\n" for each in chosen))
    print_objects([definition for each in chosen for definition in _definitions(each)], output)


def _definitions(product: CrdProduct) -> tuple[dict[str, object], ...]:
    match product:
        case CrdProduct.VPOD:
            return vpod_crds.definitions()
        case CrdProduct.VM:
            return vm_crds.definitions()
        case _:
            assert_never(product)


def _origin(product: CrdProduct) -> str:
    match product:
        case CrdProduct.VPOD:
            return f"ConsumerGroup, Consumer and KafkaSource as in eventing-kafka-broker {vpod_crds.RELEASE}"
        case CrdProduct.VM:
            return f"VirtualMachine and VirtualMachineMigration as in neondatabase/autoscaling {vm_crds.RELEASE}"
        case _:
            assert_never(product)

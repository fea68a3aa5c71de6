"""`situate crds`: the custom resources that the products place."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from situate.cli.output import Format, print_data, yaml_text
from situate.vpod.crds import RELEASE, definitions


def crds(
    output: Annotated[Format, typer.Option("--output", "-o", help="yaml or json.")] = Format.YAML,
) -> None:
    """Print the custom resource definitions, for kubectl apply.

    ConsumerGroup, Consumer and KafkaSource have the shape of Knative's. A cluster with Knative has its
    own: leave these.

        situate crds | kubectl apply --server-side -f -
    """
    if output is Format.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(definitions())}, Format.JSON)
        return
    sys.stdout.write(f"# ConsumerGroup, Consumer and KafkaSource as in eventing-kafka-broker {RELEASE}\n")
    sys.stdout.write("---\n".join(yaml_text(definition) for definition in definitions()))

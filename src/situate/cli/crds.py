"""`situate crds`: the custom resources that the products place."""

from __future__ import annotations

import sys

from situate.cli.output import DataFormat, DataOutputOption, print_objects
from situate.vpod.crds import RELEASE, definitions


def crds(
    output: DataOutputOption = DataFormat.YAML,
) -> None:
    """Print the custom resource definitions, for kubectl apply.

    ConsumerGroup, Consumer and KafkaSource have the shape of Knative's. A cluster with Knative has its
    own: leave these.

    \b
    situate crds | kubectl apply --server-side -f -
    """
    if output is DataFormat.YAML:
        sys.stdout.write(f"# ConsumerGroup, Consumer and KafkaSource as in eventing-kafka-broker {RELEASE}\n")
    print_objects(definitions(), output)

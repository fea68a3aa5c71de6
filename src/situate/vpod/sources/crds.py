"""The custom resources that vpod places, as CustomResourceDefinitions for a cluster without Knative.

Group, versions, names, field paths, types and subresources are those of eventing-kafka-broker v0.50.0. The source files
are 100-consumergroup.yaml, 100-consumer.yaml and 100-kafka-source.yaml. If a file leaves the schema open, the fields
are those of its Go types. Every schema is structural and admits nothing that upstream refuses. On a cluster with
Knative, use Knative's own definitions.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

RELEASE = "v0.50.0"
"""The release of eventing-kafka-broker whose API these definitions describe."""

INTERNAL_GROUP = "internal.kafka.eventing.knative.dev"
SOURCES_GROUP = "sources.knative.dev"

_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INT32: Schema = {"type": "integer", "format": "int32"}
_INT64: Schema = {"type": "integer", "format": "int64"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}


def definitions() -> tuple[dict[str, Any], ...]:
    """Return ConsumerGroup, Consumer and KafkaSource, in an order in which they can be applied."""
    return (consumer_group(), consumer(), kafka_source())


def consumer_group() -> dict[str, Any]:
    """Return consumergroups.internal.kafka.eventing.knative.dev, scalable by `spec.replicas`."""
    schema = _resource(
        spec=_object(
            replicas=_INT32,
            selector=_STRINGS,
            template=_object(metadata={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, spec=_worker()),
            oidcServiceAccountName=_STRING,
            topLevelResourceRef=_object_reference(),
        ),
        status=_object(
            **_duck_status(),
            **_placement_fields(),
            **_subscriber_status(),
            replicas=_INT32,
            selector=_STRING,
        ),
    )
    columns = [
        *_ready_columns(),
        _column("Subscriber", ".status.subscriberUri"),
        _column("Replicas", ".spec.replicas"),
        _column("Ready Replicas", ".status.replicas"),
        _age(),
    ]
    version = _version("v1alpha1", schema, columns, scale=".spec.replicas", ready=".status.replicas")
    return _definition(INTERNAL_GROUP, "ConsumerGroup", "consumergroups", [version])


def consumer() -> dict[str, Any]:
    """Return consumers.internal.kafka.eventing.knative.dev: one worker of a ConsumerGroup on one Pod."""
    schema = _resource(spec=_worker(), status=_object(**_duck_status(), **_subscriber_status()))
    columns = [*_ready_columns(), _column("Subscriber", ".status.subscriberUri"), _age()]
    return _definition(INTERNAL_GROUP, "Consumer", "consumers", [_version("v1alpha1", schema, columns)])


def kafka_source() -> dict[str, Any]:
    """Return kafkasources.sources.knative.dev, scalable by `spec.consumers`; v1beta1 is stored, as upstream stores it.

    Upstream converts between its two versions by webhook. The versions differ by two optional fields, so conversion by
    name (strategy None) loses nothing that both versions have.
    """
    columns = [
        _column("Topics", ".spec.topics"),
        _column("BootstrapServers", ".spec.bootstrapServers"),
        *_ready_columns(),
        _age(),
    ]
    versions = []
    for name, aws_sasl in (("v1beta1", False), ("v1", True)):
        schema = _resource(spec=_kafka_source_spec(aws_sasl=aws_sasl), status=_kafka_source_status())
        versions.append(
            _version(
                name, schema, columns, scale=".spec.consumers", ready=".status.consumers", stored=name == "v1beta1"
            )
        )
    definition = _definition(SOURCES_GROUP, "KafkaSource", "kafkasources", versions)
    definition["metadata"]["labels"] = {"duck.knative.dev/source": "true", "eventing.knative.dev/source": "true"}
    definition["spec"]["names"]["categories"] = ["all", "knative", "eventing", "sources"]
    return definition


def _kafka_source_spec(*, aws_sasl: bool) -> Schema:
    spec = _object(
        bootstrapServers=_array(_STRING),
        ceOverrides=_object(extensions=_STRINGS),
        consumerGroup=_STRING,
        consumers=_INT32,
        delivery=_object(**_delivery()),
        initialOffset=_STRING,
        net=_net(aws_sasl=aws_sasl),
        ordering=_STRING,
        sink=_destination(),
        topics=_array(_STRING),
    )
    return _with_required(spec, "bootstrapServers", "topics")


def _kafka_source_status() -> Schema:
    return _object(
        **_duck_status(),
        **_placement_fields(),
        auth=_object(serviceAccountName=_STRING),
        ceAttributes=_array(_object(source=_STRING, type=_STRING)),
        claims=_STRING,
        consumers=_INT32,
        selector=_STRING,
        sinkAudience=_STRING,
        sinkCACerts=_STRING,
        sinkUri=_STRING,
    )


def _worker() -> Schema:
    """Return the schema of `spec` of a Consumer, and of the template of a ConsumerGroup."""
    return _object(
        auth=_object(
            AuthSpec=_object(secret=_object(ref=_object(name=_STRING))),
            NetSpec=_net(aws_sasl=True),
            SecretSpec=_object(ref=_object(name=_STRING, namespace=_STRING)),
        ),
        ceOverrides=_object(extensions=_STRINGS),
        configs=_object(Configs=_STRINGS, keyType=_STRING),
        delivery=_object(**_delivery(), format=_STRING, initialOffset=_STRING, ordering=_STRING),
        filters=_object(
            filter=_object(attributes=_STRINGS),
            filters=_array({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        ),
        oidcServiceAccountName=_STRING,
        podBind={**_object(podName=_STRING, podNamespace=_STRING), "nullable": True},
        reply=_object(
            URLReply=_object(enabled=_BOOLEAN, Destination=_destination()),
            noReply=_object(enabled=_BOOLEAN),
            topicReply=_object(enabled=_BOOLEAN),
        ),
        subscriber=_destination(),
        topics=_array(_STRING),
        vReplicas={**_INT32, "nullable": True},
    )


def _net(*, aws_sasl: bool) -> Schema:
    secret = _object(
        secretKeyRef={
            **_with_required(_object(key=_STRING, name=_STRING, optional=_BOOLEAN), "key"),
            "x-kubernetes-map-type": "atomic",
        }
    )
    aws = {"roleARN": secret, "tokenProvider": secret} if aws_sasl else {}
    return _object(
        sasl=_object(enable=_BOOLEAN, password=secret, type=secret, user=secret, **aws),
        tls=_object(caCert=secret, cert=secret, enable=_BOOLEAN, key=secret),
    )


def _delivery() -> dict[str, Schema]:
    return {
        "backoffDelay": _STRING,
        "backoffPolicy": _STRING,
        "deadLetterSink": _destination(),
        "retry": _INT32,
        "retryAfterMax": _STRING,
        "timeout": _STRING,
    }


def _destination() -> Schema:
    reference = _object(
        address=_STRING,
        apiVersion=_STRING,
        group=_STRING,
        kind=_STRING,
        name=_STRING,
        namespace=_STRING,
    )
    return _object(CACerts=_STRING, audience=_STRING, ref=_with_required(reference, "kind", "name"), uri=_STRING)


def _object_reference() -> Schema:
    fields = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
    return {**_object(**dict.fromkeys(fields, _STRING)), "x-kubernetes-map-type": "atomic"}


def _duck_status() -> dict[str, Schema]:
    condition = _object(
        lastTransitionTime=_STRING,
        message=_STRING,
        reason=_STRING,
        severity=_STRING,
        status=_STRING,
        type=_STRING,
    )
    return {
        "annotations": _STRINGS,
        "conditions": _array(_with_required(condition, "status", "type")),
        "observedGeneration": _INT64,
    }


def _placement_fields() -> dict[str, Schema]:
    return {
        "maxAllowedVReplicas": _INT32,
        "placements": _array(_object(podName=_STRING, vreplicas=_INT32)),
    }


def _subscriber_status() -> dict[str, Schema]:
    names = (
        "subscriberUri",
        "subscriberCACerts",
        "subscriberAudience",
        "deadLetterSinkUri",
        "deadLetterSinkCACerts",
        "deadLetterSinkAudience",
    )
    return dict.fromkeys(names, _STRING)


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _with_required(schema: Schema, *fields: str) -> Schema:
    return {**schema, "required": list(fields)}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _resource(*, spec: Schema, status: Schema) -> Schema:
    return _object(apiVersion=_STRING, kind=_STRING, metadata={"type": "object"}, spec=spec, status=status)


def _column(name: str, path: str) -> dict[str, str]:
    return {"name": name, "type": "string", "jsonPath": path}


def _ready_columns() -> list[dict[str, str]]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [_column("Ready", f"{ready}.status"), _column("Reason", f"{ready}.reason")]


def _age() -> dict[str, str]:
    return {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _version(
    name: str, schema: Schema, columns: list[dict[str, str]], *, scale: str = "", ready: str = "", stored: bool = True
) -> dict[str, Any]:
    """Return one version of a definition.

    `scale` and `ready` are the paths of wanted and running replicas; without them there is no scale subresource.
    """
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": scale,
            "statusReplicasPath": ready,
            "labelSelectorPath": ".status.selector",
        }
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "additionalPrinterColumns": columns,
    }


def _definition(group: str, kind: str, plural: str, versions: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": versions,
        },
    }

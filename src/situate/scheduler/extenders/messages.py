"""The JSON messages of extenders (upstream staging/src/k8s.io/kube-scheduler/extender/v1 types.go).

Extenders are mostly written in Go, whose decoder ignores the case of field names; so does this module. A body that Go
would not decode counts as no reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from situate.framework.plugin_api.actions import BindByExtender
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    FilterReply,
    NoReply,
    PreemptionReply,
    PrioritizeNodes,
    PrioritizeReply,
    ProcessPreemption,
)

_INT64: Final = range(-(2**63), 2**63)


class BadReply(ValueError):
    """A reply that does not fit the question."""


def node_arguments(
    question: FilterNodes | PrioritizeNodes, pod: bytes, nodes: Sequence[bytes] | None
) -> dict[str, Any]:
    """Build ExtenderArgs. `nodes` are whole objects, for extenders without a cache; None sends names."""
    items = None if nodes is None else {"metadata": {}, "items": list(map(msgspec.Raw, nodes))}
    return {
        "Pod": msgspec.Raw(pod),
        "Nodes": items,
        "NodeNames": list(question.nodes) if nodes is None else None,
    }


def preemption_arguments(
    question: ProcessPreemption, pod: bytes, victims: Mapping[str, bytes] | None
) -> dict[str, Any]:
    """Build ExtenderPreemptionArgs. `victims` are whole objects by uid; None sends uids alone."""
    by_node = {
        node: {
            "Pods": [{"UID": each.uid} if victims is None else msgspec.Raw(victims[each.uid]) for each in found.pods],
            "NumPDBViolations": found.violations,
        }
        for node, found in question.victims.items()
    }
    return {
        "Pod": msgspec.Raw(pod),
        "NodeNameToVictims": None if victims is None else by_node,
        "NodeNameToMetaVictims": by_node if victims is None else None,
    }


def binding_arguments(action: BindByExtender) -> dict[str, Any]:
    """Build ExtenderBindingArgs."""
    namespace, name = action.pod
    return {"PodName": name, "PodNamespace": namespace, "PodUID": action.uid, "Node": action.node}


def reply_of(question: ExtenderQuestion, body: bytes) -> ExtenderReply:
    """Parse the answer's body; `NoReply` if it cannot be read or reports an error."""
    try:
        said = _decode_json(body)
        match question:
            case FilterNodes():
                return _parse_filter_reply(question, said)
            case PrioritizeNodes():
                return _parse_prioritize_reply(said)
            case ProcessPreemption():
                return _parse_preemption_reply(said)
    except BadReply as problem:
        return NoReply(str(problem))


def binding_problem(body: bytes) -> str:
    """Return the error in an ExtenderBindingResult; empty if there is none. `BadReply` if it cannot be read."""
    return _text(_fields(_decode_json(body), "reply"), "Error")


def _parse_filter_reply(question: FilterNodes, said: Any) -> FilterReply:
    fields = _fields(said, "reply")
    error = _text(fields, "Error")
    if error:
        raise BadReply(error)
    names, nodes = fields.get("nodenames"), fields.get("nodes")
    if question.extender.node_cache_capable and names is not None:
        passing = tuple(_string(name, "NodeNames") for name in _list(names, "NodeNames"))
    elif nodes is not None:
        items = _list(_fields(nodes, "Nodes").get("items"), "Nodes.items")
        passing = tuple(map(_name_of, items))
    else:
        passing = ()
    return FilterReply(passing, _texts(fields, "FailedNodes"), _texts(fields, "FailedAndUnresolvableNodes"))


def _name_of(node: Any) -> str:
    metadata = _fields(_fields(node, "Nodes.items").get("metadata"), "Nodes.items.metadata")
    return _string(metadata.get("name", ""), "Nodes.items.metadata.name")


def _parse_prioritize_reply(said: Any) -> PrioritizeReply:
    scores = []
    for each in _list(said, "reply"):
        fields = _fields(each, "reply")
        scores.append((_text(fields, "Host"), _integer(fields, "Score")))
    return PrioritizeReply(tuple(scores))


def _parse_preemption_reply(said: Any) -> PreemptionReply:
    path = "NodeNameToMetaVictims"
    victims = {}
    by_node = _fields(said, "reply").get(path.lower())
    for node, found in _object(by_node, path).items():
        fields = _fields(found, path)
        pods = (_fields(each, f"{path}.Pods") for each in _list(fields.get("pods"), f"{path}.Pods"))
        uids = tuple(_text(each, "UID") for each in pods)
        victims[node] = (uids, _integer(fields, "NumPDBViolations"))
    return PreemptionReply(victims)


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise BadReply(f"answered with invalid JSON: {problem}") from problem


def _object(value: Any, path: str) -> dict[str, Any]:
    """Return an object; null is an empty one, as in Go."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad_reply(path, value, "an object")
    return value


def _fields(value: Any, path: str) -> dict[str, Any]:
    """Return the fields of an object by their names in lower case."""
    return {name.lower(): each for name, each in _object(value, path).items()}


def _list(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _bad_reply(path, value, "a list")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name.lower())
    return "" if value is None else _string(value, name)


def _string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _bad_reply(path, value, "a string")
    return value


def _texts(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    return {key: _string(value, f"{name}.{key}") for key, value in _object(fields.get(name.lower()), name).items()}


def _integer(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name.lower())
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INT64:
        raise _bad_reply(name, value, "a 64-bit integer")
    return value


def _bad_reply(path: str, value: Any, allowed: str) -> BadReply:
    found = msgspec.json.encode(value).decode()
    return BadReply(f"{path}: found {found[:60]}{'…' if len(found) > 60 else ''}, allowed: {allowed}")

"""Decode bodies of requests from JSON or YAML to plain values, and find fields that occur twice."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import yaml

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import json_type, quote
from situate.objects.settings.yaml_text import UNFIT, count_unfolded

MAX_DEPTH = 200
"""Levels of nesting. No schema describes deeper values, and walking them would exhaust the stack."""
MAX_ALIASED_VALUES = 200_000
"""Values that YAML aliases may add: a body that is small as text must not become large in memory."""
MAX_NUMBER_LENGTH = 1000
"""Characters in a number: far beyond 64 bits, and still fast to parse."""
YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml"})


def decode(raw: bytes, content_type: str = "application/json") -> Any | Refused:
    """Return the value of the body, or the 400 for a body that is not JSON (or YAML, if that is its type)."""
    try:
        if content_type in YAML_TYPES:
            value = _load_yaml(raw)
        else:
            value = msgspec.json.decode(raw)
    except RecursionError:
        return _nesting_refusal()
    except msgspec.DecodeError as error:
        return bad_request(f"error decoding body: {error}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return bad_request(f"error decoding YAML: {' '.join(str(error).split())}")
    except UNFIT:
        return bad_request("error decoding YAML: cannot decode a value as its tag says")
    return _nesting_refusal() if _is_deep(raw) and _depth(value) > MAX_DEPTH else value


def decode_posted(raw: bytes, kind: str) -> dict[str, Any] | Refused:
    """Return the object in a JSON body, or the 400 if it is of another kind. The body may omit its kind."""
    value = decode(raw)
    if isinstance(value, Refused):
        return value
    if not isinstance(value, dict) or value.get("kind", kind) != kind:
        return bad_request(f"the body is not a {kind}")
    return value


def _load_yaml(raw: bytes) -> Any:
    """Load YAML as `yaml.load` does. Excessive aliases are refused with the API server's error text."""
    loader = _Loader(raw)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        most = len(raw) + MAX_ALIASED_VALUES
        if count_unfolded(node, {}, most) > most:
            raise yaml.YAMLError("yaml: document contains excessive aliasing")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _is_deep(raw: bytes) -> bool:
    """Return whether the value can exceed MAX_DEPTH. YAML in block style nests by indentation, without brackets."""
    return raw.count(b"{") + raw.count(b"[") > MAX_DEPTH or b" " * MAX_DEPTH in raw


def _depth(value: Any) -> int:
    """Return how many objects and lists are nested in one another."""
    depth = 0
    level = [value]
    while holders := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [item for holder in holders for item in (holder.values() if isinstance(holder, dict) else holder)]
    return depth


def _nesting_refusal() -> Refused:
    return bad_request(f"error decoding body: objects and lists nested deeper than {MAX_DEPTH} levels")


def duplicate_fields(raw: bytes, value: Any) -> tuple[str, ...]:
    """Return the paths of fields that occur more than once in a JSON body of `value`, such as `spec.nodeName`.

    If the raw body and the encoded value have equal numbers of keys, no field is repeated. That test takes a few
    microseconds.
    """
    keys = msgspec.json.encode(value).count(b'":')
    if raw.count(b'":') == keys and b'" :' not in raw and b'"\n:' not in raw and b'"\t:' not in raw:
        return ()
    found: list[str] = []
    _collect_duplicates(json.loads(raw, object_pairs_hook=_Pairs), "", found)
    return tuple(found)


class _Pairs(list[tuple[str, Any]]):
    """Members of a JSON object, repeated ones included."""


def _collect_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            where = f"{path}.{key}" if path else key
            if key in seen:
                found.append(where)
            seen.add(key)
            _collect_duplicates(item, where, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _collect_duplicates(item, f"{path}[{index}]", found)


class _Loader(yaml.SafeLoader):
    """YAML loader that follows `sigs.k8s.io/yaml`, which converts YAML to JSON.

    Times stay text, keys are text, and numbers are JSON's. Values that JSON cannot represent are refused.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return {
            key if isinstance(key, str) else msgspec.json.encode(key).decode(): item for key, item in mapping.items()
        }

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value: Any = super().construct_scalar(node)
        if isinstance(value, str) and not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
            raise self.error_at("found invalid Unicode character escape code", node)
        return value

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """Construct an integer or a float.

        A base-60 number of YAML 1.1, such as `12:30`, becomes text, as does a number too large for a float.
        """
        if ":" in node.value or len(node.value) > MAX_NUMBER_LENGTH:
            return self.construct_scalar(node)
        whole = node.tag == "tag:yaml.org,2002:int"
        try:
            number = self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)
        except (ValueError, IndexError):
            raise self.error_at(f"found {node.value[:40]!r} in place of a number", node) from None
        if not whole and not math.isfinite(number):
            raise self.error_at("json: unsupported value: NaN or infinity", node)
        if -(2**63) <= number < 2**64:
            return number
        try:
            return self.construct_scalar(node) if node.value.lstrip("+-").startswith("0") else float(number)
        except OverflowError:
            return self.construct_scalar(node)

    @staticmethod
    def error_at(problem: str, node: yaml.Node) -> yaml.YAMLError:
        return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _construct in {
    "int": _Loader.construct_number,
    "float": _Loader.construct_number,
    "timestamp": _Loader.construct_scalar,
    "binary": _Loader.construct_undefined,
    "omap": _Loader.construct_undefined,
    "pairs": _Loader.construct_undefined,
    "set": _Loader.construct_undefined,
}.items():
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _construct)


def check_type_fields(value: Any, expected_kind: str, raw: bytes) -> Refused | None:
    """Return the 400 for a body whose apiVersion and kind cannot be read."""
    shown = quote("") if not raw else raw[:64].decode(errors="replace")
    if isinstance(value, dict):
        for key in ("apiVersion", "kind"):
            if value.get(key) is not None and not isinstance(value[key], str):
                return bad_request(
                    f"the object provided is unrecognized (must be of type {expected_kind}): couldn't get "
                    f"version/kind; json parse error: json: cannot unmarshal {json_type(value[key])} into Go "
                    "struct "
                    f"field .{key} of type string ({shown})"
                )
        return None
    return bad_request(
        f"the object provided is unrecognized (must be of type {expected_kind}): couldn't get version/kind; "
        f"json parse error: json: cannot unmarshal {json_type(value)} into Go value of type struct "
        r'{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
        f" ({raw[:64].hex()})"
    )

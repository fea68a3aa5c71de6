"""Canonical JSON and digests over it: one text for each value, in UTF-8, with sorted keys and without spaces.

The text equals the output of `jq -cjS` for objects that Kubernetes serves. Numbers stay in the form in which they were
read: 1 and 1.0 are two values. Hostile text raises `ValueError`; the caller adds the name of the record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NoReturn


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of a value. `ValueError` if JSON or UTF-8 lacks it: NaN, infinity, half a surrogate."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        return text.encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from error


def read_json(text: bytes) -> Any:
    """Parse JSON strictly: no NaN, no infinity, UTF-8. `ValueError` names the mistake."""
    try:
        return json.loads(text.decode(), parse_constant=_reject_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def digest(raw: bytes) -> str:
    """Return the digest as a record contains it: `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def mapping_at(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that holds a map; empty if it is absent or null. `ValueError` for any other value."""
    found = value.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{name}: found {found!r:.80}, allowed: a map")
    return found


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")

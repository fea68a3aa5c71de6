"""JSON with one spelling for each value, and digests over it: UTF-8, sorted keys, no spaces.

What `jq -cjS` prints for the objects that Kubernetes serves. Numbers keep the kind in which they were read: 1 and 1.0
are two values. Hostile text is refused with `ValueError`; which record it stood in is for the caller to say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NoReturn


def canonical_json(value: Any) -> bytes:
    """`ValueError` for what JSON or UTF-8 cannot say: not a number, infinity, half a surrogate pair."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        return text.encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"no JSON value: {error}") from error


def read_json(text: bytes) -> Any:
    """Strictly: no NaN, no infinity, UTF-8. `ValueError` says what is wrong."""
    try:
        return json.loads(text.decode(), parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def digest(raw: bytes) -> str:
    """As a record bears it: `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def mapping_at(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that holds a map; empty where it is absent or null, `ValueError` where it holds something else."""
    found = value.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{name}: found {found!r:.80}, allowed: a map")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")

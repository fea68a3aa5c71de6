"""Pages of settings, written from the types that the configuration file is read with: key, default, allowed, meaning.

A product's page is an introduction by hand and a table for each mapping in its section. `PAGES` names them; a product
joins when each of its settings has a description.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect as types

from situate.objects.settings.schema import to_plain_data
from situate.objects.settings.section import FORM, describe
from situate.objects.values.durations import format_duration
from situate.vpod.config.settings import StatefulSetSettings

_SHORTER = {
    ": at most 63 of a-z 0-9 - that begins and ends with a letter or digit": "",
    ": at most 253 of a-z 0-9 - . that begins and ends with a letter or digit": "",
    ' such as "100s", "5m" or "1h30m", or a number of seconds': "",
    "a duration of at least 0.1": "a duration of at least 100ms",
    " of at least 0 and of at most 2147483647": " of at least 0",
    " and of at most 2147483647": "",
    ": spec.replicas": "",
    "text of at least 1 characters": "text, not empty",
}
"""What the introduction says once, or every integer has."""
_HEAD = "| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Page:
    """One product's page."""

    name: str
    kind: Any
    path: str
    """Before each key, such as `vpod[]`."""
    introduction: str


PAGES = (
    Page(
        "vpod-settings.md",
        StatefulSetSettings,
        "vpod[]",
        """# Settings of vpod

This page lists every setting of vpod, with its default and the allowed values. [Tune scaling and
placement](../guides/vpod/tune.md) says which settings to decide about first. [vpod](../concepts/vpod.md) explains the
decisions behind them, and [Limits](limits.md) names their limits.

`vpod:` in the configuration file is a list with one entry for each StatefulSet:

```yaml
apiVersion: situate.dev/v1alpha1
kind: Situate
vpod:
- statefulSetNamespace: knative-eventing
  statefulSetName: kafka-source-dispatcher
  podCapacity: 20
```

- `situate check -f FILE --show` prints the values of a file. `situate check --schema` prints a JSON Schema for editors.
- Write a duration as `500ms`, `90s` or `1h30m`, or as a number of seconds.
- Changes take effect without a restart, with three exceptions: `sources`, entries that you add or remove, and
  `policy: policy` with ConfigMaps if the process started with another policy.
- Knative's environment variables `POD_CAPACITY`, `DISPATCHERS_MIN_REPLICAS`, `AUTOSCALER_REFRESH_PERIOD`,
  `SCHEDULER_CONFIG` and `DESCHEDULER_CONFIG` override the key of every entry.

This page is generated from the types that read the file.
""",
    ),
)


def text_of(page: Page) -> str:
    """The whole page."""
    tables = [f"## {path}\n\n{about}\n\n{_HEAD}{rows}" for path, about, rows in _tables(page.kind, page.path)]
    return "\n".join([page.introduction, *tables])


def files(root: Path) -> Iterator[tuple[Path, str]]:
    """Each page's file, and what belongs there."""
    for page in PAGES:
        yield root / "docs" / "reference" / page.name, text_of(page)


def _tables(kind: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Path, sentence and rows of a mapping, then of those in it."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    about = cleandoc(kind.__doc__ or "")
    yield path, about, "".join(_row(path, field) for field in info.fields)
    for field in info.fields:
        inner = _inner(field.type)
        if inner is not None:
            yield from _tables(inner, f"{path}.{field.encode_name}{'[]' if _is_list(field.type) else ''}")


def _row(path: str, field: types.Field) -> str:
    name = f"{path.rpartition('.')[2]}.{field.encode_name}" if "." in path else field.encode_name
    meaning = _description(field.type)
    if not meaning:
        raise AssertionError(f"{path}.{field.encode_name}: a setting without a description")
    inner = _inner(field.type)
    allowed = f"see `{path}.{field.encode_name}`" if inner is not None else _allowed(field.type)
    return f"| `{name}` | {_default(field)} | {_cell(allowed)} | {_cell(meaning)} |\n"


def _allowed(info: types.Type) -> str:
    said = describe(info)
    for long, short in _SHORTER.items():
        said = said.replace(long, short)
    return f"{said} or null" if _takes_null(info) else said


def _takes_null(info: types.Type) -> bool:
    bare = info.type if isinstance(info, types.Metadata) else info
    return isinstance(bare, types.UnionType) and any(isinstance(each, types.NoneType) for each in bare.types)


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if _inner(field.type) is not None and not _is_list(field.type):
        return "see there"
    if isinstance(value, float) and _is_duration(field.type):
        return f"`{format_duration(value)}`"
    if _is_list(field.type):
        return f"`{_flow([_shortened(each) for each in value])}`"
    return f"`{_flow(to_plain_data(value))}`"


def _shortened(item: Any) -> Any:
    """An entry with what is not its default."""
    if not isinstance(item, msgspec.Struct):
        return to_plain_data(item)
    usual = {field.name: field.default for field in msgspec.structs.fields(item)}
    given = {each: getattr(item, each) for each in item.__struct_fields__}
    return {name: value for name, value in given.items() if value != usual[name]}


def _flow(value: Any) -> str:
    if value == "":
        return '""'
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("...").strip()
    return text


def _description(info: types.Type) -> str:
    found = ""
    if isinstance(info, types.Metadata):
        found = str((info.extra_json_schema or {}).get("description", "")) or _description(info.type)
    return found


def _is_duration(info: types.Type) -> bool:
    if isinstance(info, types.Metadata):
        return (info.extra or {}).get(FORM) == "duration" or _is_duration(info.type)
    return False


def _is_list(info: types.Type) -> bool:
    bare = info.type if isinstance(info, types.Metadata) else info
    return isinstance(bare, types.ListType | types.VarTupleType)


def _inner(info: types.Type) -> Any:
    """The settings type that a field holds, or a list of them; None for any other."""
    bare = info.type if isinstance(info, types.Metadata) else info
    if isinstance(bare, types.ListType | types.VarTupleType):
        return _inner(bare.item_type)
    return bare.cls if isinstance(bare, types.StructType) else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

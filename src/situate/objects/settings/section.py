"""Parse the plain data of a configuration file into typed settings, and report all mistakes at once.

The types are frozen msgspec structs with `rename="camel"`, or with `rename=key_of` if names of fields contain units.
msgspec itself stops at the first mistake, and has neither durations nor hints, so this module walks the data itself.
`situate.runtime.configuration.file` reads files, the environment and flags. `situate.objects.settings.schema` writes
the JSON Schema of the same types.

    class Drain(msgspec.Struct, frozen=True, rename="camel"):
        settle: Duration = 10.0

    value, mistakes = parse_section({"setle": "5s"}, Drain, "vpod[0].drain")
    # None, (Mistake("vpod[0].drain.setle", found "5s", allowed "settle", "did you mean settle?"),)
"""

from __future__ import annotations

import difflib
import json
import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from typing import Annotated, Any, Final, Protocol, TypeGuard, TypeVar, cast, runtime_checkable

import msgspec
from msgspec import inspect as types

from situate.objects.values.durations import BadDuration, parse_duration

T = TypeVar("T")

FORM = "situate.form"
"""Key of `msgspec.Meta(extra=…)` for a form that the type alone does not show: `duration`."""
ALLOWED = "situate.allowed"
"""Key of `msgspec.Meta(extra=…)` for words that describe the allowed values, in place of a pattern."""

Duration = Annotated[float, msgspec.Meta(ge=0, extra={FORM: "duration"})]
"""Seconds, not negative. Written "100s", "5m", "1h30m" or as a number of seconds below 10^9."""
SignedDuration = Annotated[float, msgspec.Meta(extra={FORM: "duration"})]
"""Seconds, possibly negative."""
PositiveDuration = Annotated[float, msgspec.Meta(gt=0, extra={FORM: "duration"})]
"""Seconds, above 0."""
ObjectName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        max_length=253,
        extra={ALLOWED: "a DNS subdomain: at most 253 of a-z 0-9 - . that begins and ends with a letter or digit"},
    ),
]
"""The name of most Kubernetes objects (DNS-1123 subdomain)."""
NamespaceName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        extra={ALLOWED: "a DNS label: at most 63 of a-z 0-9 - that begins and ends with a letter or digit"},
    ),
]
"""The name of a namespace (DNS-1123 label)."""


def key_of(field: str) -> str:
    """Return the key of a field: camel case without the unit of times, so that `cool_down_s` is `coolDown`."""
    first, *others = field.removesuffix("_s").split("_")
    return first + "".join(word.capitalize() for word in others)


def matching_fields(settings: msgspec.Struct, kind: Any) -> dict[str, Any]:
    """Return the values of the settings that a struct or a dataclass has under the same name."""
    names = signature(kind).parameters
    return {name: getattr(settings, name) for name in settings.__struct_fields__ if name in names}


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a configuration; `str()` is the sentence for the user."""

    path: str
    """For example `vpod[0].drain.settle`; empty for the document itself."""
    found: str
    """The value as JSON, shortened; empty without a value."""
    allowed: str
    """The allowed values."""
    hint: str = ""
    """The next step, if there is more to say than `allowed`."""

    def __str__(self) -> str:
        found = f"found {self.found}" if self.found else "missing"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.path or 'the document'}: {found}, allowed: {self.allowed}{hint}"


@runtime_checkable
class CrossFieldChecks(Protocol):
    """Settings with fields that restrict each other."""

    def mistakes(self) -> Iterable[Mistake]:
        """Yield conflicts between fields that are valid on their own; paths are relative to the struct:
        `renewDeadline`.
        """
        ...


def parse_section(data: object, kind: type[T], path: str = "") -> tuple[T | None, tuple[Mistake, ...]]:
    """Return the settings, or None and every mistake in the order of the data.

    `kind` is a msgspec struct, or a list, dict or tuple of structs. `null` counts as not set if the field has a default
    and does not allow null. An integer may be written as `20.0`. A boolean is never a number, and text is never
    converted.
    """
    found: list[Mistake] = []
    value = _parse(data, _type_info(cast("Any", kind)), path, found)
    if found:
        return None, tuple(found)
    return value, ()


@cache
def _type_info(kind: Any) -> types.Type:
    """Cache the type information of each kind of section: computing it takes longer than parsing."""
    return types.type_info(kind)


def default_section(kind: type[T], path: str = "") -> tuple[T | None, tuple[Mistake, ...]]:
    """Return the settings of a section that is absent."""
    return parse_section({}, kind, path)


def format_value(value: object) -> str:
    """Return a value as JSON in at most 60 characters, without passwords in URLs. The rest is not encoded."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = ""
    try:
        for piece in _JSON.iterencode(value):
            text += piece
            if len(text) > 60:
                break
    except (TypeError, ValueError):
        text = reprlib.repr(value)
    text = _SECRET.sub(r"\1\2…", text[:_MAX_SCANNED])
    return text if len(text) <= 60 else text[:57] + "..."


_SECRET: Final = re.compile(r"(://)\S*(?=@)|([?&]\w*(?:password|secret|token)\w*=)[^&\s\"]+", re.IGNORECASE)
"""Secrets in a URL, at any place: a wrong key must not put a password into a log."""
_MAX_SCANNED: Final = 2000
"""Characters that are searched for secrets; a URL is shorter."""


_JSON = json.JSONEncoder(ensure_ascii=False, default=str)


def spelling_hint(word: str, known: Iterable[str]) -> str:
    """Return `did you mean podCapacity?`, or an empty text if no known word is similar; case does not matter."""
    words = list(known)
    by_lower = {each.lower(): each for each in reversed(words)}
    near = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]}?" if near else ""


def unknown_key(key: object, known: Iterable[str], path: str, value: object) -> Mistake:
    """Return the mistake for an unknown key."""
    words = list(known)
    hint = (
        spelling_hint(key, words) if isinstance(key, str) else f"quote the key if you mean {format_value(key)} as text"
    )
    return Mistake(_child_path(path, key), format_value(value), "only the keys " + ", ".join(words), hint)


_WRONG: Any = object()
"""Marks a value that could not be built; its mistake is recorded."""


def _parse(value: object, info: types.Type, path: str, found: list[Mistake]) -> Any:
    if isinstance(info, types.Metadata):
        return _parse_metadata(value, info, path, found)
    match info:
        case types.AnyType() | types.RawType():
            return value
        case types.StructType():
            return _parse_struct(value, info, path, found)
        case types.UnionType():
            return _parse_union(value, info, path, found)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return _parse_items(value, info, path, found)
        case types.DictType():
            return _parse_dict(value, info, path, found)
        case types.LiteralType():
            return _parse_choice(value, {each: each for each in info.values}, path, found)
        case types.EnumType():
            return _parse_choice(value, {each.value: each for each in info.cls}, path, found)
        case _:
            return _parse_scalar(value, info, path, found)


def _parse_metadata(value: object, info: types.Metadata, path: str, found: list[Mistake]) -> Any:
    extra = info.extra or {}
    plain = value
    if extra.get(FORM) == "duration":
        try:
            plain = parse_duration(value)
        except BadDuration as problem:
            found.append(Mistake(path, format_value(value), describe(info), str(problem)))
            return _WRONG
    own: list[Mistake] = []
    parsed = _parse(plain, info.type, path, own)
    if ALLOWED in extra or FORM in extra:
        in_words = {"found": format_value(value), "allowed": describe(info)}
        own = [replace(mistake, **in_words) if mistake.path == path else mistake for mistake in own]
    found.extend(own)
    return parsed


def _parse_struct(value: object, info: types.StructType, path: str, found: list[Mistake]) -> Any:
    if not isinstance(value, Mapping):
        found.append(Mistake(path, format_value(value), describe(info)))
        return _WRONG
    before = len(found)
    fields = {each.encode_name: each for each in info.fields}
    arguments: dict[str, object] = {}
    for key, item in value.items():
        field = fields.get(key) if isinstance(key, str) else None
        if field is None:
            found.append(unknown_key(key, fields, path, item))
        elif item is None and not field.required and not _takes_null(field.type):
            continue  # as in Kubernetes, null means the default
        else:
            arguments[field.name] = _parse(item, field.type, _child_path(path, field.encode_name), found)
    found.extend(
        Mistake(_child_path(path, field.encode_name), "", describe(field.type), "the key has no default")
        for field in info.fields
        if field.required and field.encode_name not in value
    )
    if len(found) > before:
        return _WRONG
    try:
        made = info.cls(**arguments)
    except ValueError as problem:  # raised by the struct's own __post_init__
        found.append(Mistake(path, format_value(value), describe(info), str(problem)))
        return _WRONG
    if isinstance(made, CrossFieldChecks):
        found.extend(replace(each, path=f"{path}.{each.path}" if path else each.path) for each in made.mistakes())
    return made if len(found) == before else _WRONG


def _takes_null(info: types.Type) -> bool:
    if isinstance(info, types.Metadata):
        return _takes_null(info.type)
    return isinstance(info, types.UnionType) and any(isinstance(each, types.NoneType) for each in info.types)


def _parse_union(value: object, info: types.UnionType, path: str, found: list[Mistake]) -> Any:
    """Parse the first alternative that fits. Otherwise report the mistakes of the only alternative of equal shape."""
    if value is None and _takes_null(info):
        return None
    alternatives = [each for each in info.types if not isinstance(each, types.NoneType)]
    tried: list[list[Mistake]] = []
    for alternative in alternatives:
        own: list[Mistake] = []
        parsed = _parse(value, alternative, path, own)
        if not own:
            return parsed
        tried.append(own)
    same_shape = [own for own in tried if any(mistake.path != path for mistake in own)]
    if len(tried) == 1 or len(same_shape) == 1:
        found.extend((same_shape or tried)[0])
    else:
        found.append(Mistake(path, format_value(value), describe(info)))
    return _WRONG


_Items = types.ListType | types.VarTupleType | types.SetType | types.FrozenSetType


def _parse_items(value: object, info: _Items, path: str, found: list[Mistake]) -> Any:
    if not isinstance(value, list | tuple):
        hint = "begin each entry with '- '" if isinstance(value, Mapping) else ""
        found.append(Mistake(path, format_value(value), describe(info), hint))
        return _WRONG
    _check_length(value, info.min_length, info.max_length, path, describe(info), found)
    items = [_parse(item, info.item_type, f"{path}[{index}]", found) for index, item in enumerate(value)]
    if any(item is _WRONG for item in items):
        return _WRONG
    match info:
        case types.ListType():
            return items
        case types.VarTupleType():
            return tuple(items)
        case types.SetType():
            return set(items)
        case types.FrozenSetType():
            return frozenset(items)


def _parse_dict(value: object, info: types.DictType, path: str, found: list[Mistake]) -> Any:
    if not isinstance(value, Mapping):
        found.append(Mistake(path, format_value(value), describe(info)))
        return _WRONG
    _check_length(value, info.min_length, info.max_length, path, describe(info), found)
    made: dict[Any, Any] = {}
    for key, item in value.items():
        own: list[Mistake] = []
        parsed_key = _parse(key, info.key_type, _child_path(path, key), own)
        if own:
            text = not isinstance(key, str) and "quote the key"
            found.extend(replace(each, hint=text or each.hint) for each in own)
            continue
        made[parsed_key] = _parse(item, info.value_type, _child_path(path, key), found)
    return made


def _parse_choice(value: object, choices: Mapping[Any, Any], path: str, found: list[Mistake]) -> Any:
    # compare the types as well: True == 1 and 1.0 == 1 in Python, but not in a configuration
    for name, chosen in choices.items():
        if type(name) is type(value) and name == value:
            return chosen
    hint = spelling_hint(value, [each for each in choices if isinstance(each, str)]) if isinstance(value, str) else ""
    if isinstance(value, bool) and any(isinstance(each, str) for each in choices):
        hint = "YAML reads on, off, yes and no as booleans, so quote the value"
    found.append(Mistake(path, format_value(value), _one_of(choices), hint))
    return _WRONG


def _parse_scalar(value: object, info: types.Type, path: str, found: list[Mistake]) -> Any:
    match info:
        case types.StrType() if isinstance(value, str):
            _check_length(value, info.min_length, info.max_length, path, describe(info), found)
            if info.pattern is not None and not re.search(info.pattern, value):
                found.append(Mistake(path, format_value(value), describe(info)))
            return value
        case types.BoolType() if isinstance(value, bool):
            return value
        case types.NoneType() if value is None:
            return value
        case types.IntType() if _is_integer(value):
            return _check_bounds(int(value), value, info, path, found)
        case types.FloatType() if _is_number(value):
            return _check_bounds(float(value), value, info, path, found)
    hint = ""
    if isinstance(info, types.StrType) and isinstance(value, bool | int | float):
        hint = f'to write text, quote the value: "{value}"'
    elif isinstance(value, str) and _is_quoted(value, info):
        hint = "write the value without quotes"
    found.append(Mistake(path, format_value(value), describe(info), hint))
    return _WRONG


_NUMBER = re.compile(r"[-+]?\d{1,19}(\.\d+)?")


def _is_quoted(value: str, info: types.Type) -> bool:
    """Return whether the text would be valid without quotes."""
    match info:
        case types.BoolType():
            return value in ("true", "false")
        case types.IntType() | types.FloatType():
            return _NUMBER.fullmatch(value) is not None
    return False


def _is_integer(value: object) -> TypeGuard[int | float]:
    return _is_number(value) and float(value).is_integer() and abs(value) < 2**63


def _is_number(value: object) -> TypeGuard[int | float]:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1000


def _check_bounds(
    number: Any, value: object, info: types.IntType | types.FloatType, path: str, found: list[Mistake]
) -> Any:
    inside = (
        (info.gt is None or number > info.gt)
        and (info.ge is None or number >= info.ge)
        and (info.lt is None or number < info.lt)
        and (info.le is None or number <= info.le)
    )
    if not inside:
        found.append(Mistake(path, format_value(value), describe(info)))
    return number


def _check_length(
    value: Any, least: int | None, most: int | None, path: str, allowed: str, found: list[Mistake]
) -> None:
    if (least is not None and len(value) < least) or (most is not None and len(value) > most):
        found.append(Mistake(path, format_value(value), allowed, f"the length is {len(value)}"))


def describe(info: types.Type) -> str:
    """Describe in words the values that a type allows."""
    match info:
        case types.Metadata():
            return _describe_metadata(info)
        case types.StructType():
            return "a mapping with the keys " + ", ".join(each.encode_name for each in info.fields)
        case types.DictType():
            return "a mapping"
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return (
                f"a list{_describe_length(info.min_length, info.max_length, 'entries')}, each "
                f"{describe(info.item_type)}"
            )
        case types.LiteralType():
            return _one_of(info.values)
        case types.EnumType():
            return _one_of(each.value for each in info.cls)
        case types.UnionType():
            return " or ".join(describe(each) for each in info.types if not isinstance(each, types.NoneType))
        case types.IntType():
            return "an integer" + _describe_bounds(info)
        case types.FloatType():
            return "a number" + _describe_bounds(info)
        case types.BoolType():
            return "true or false"
        case types.NoneType():
            return "null"
        case types.StrType():
            pattern = f" that matches {info.pattern}" if info.pattern else ""
            return "text" + _describe_length(info.min_length, info.max_length, "characters") + pattern
        case _:
            return "any value"


def _describe_metadata(info: types.Metadata) -> str:
    extra = info.extra or {}
    if ALLOWED in extra:
        return str(extra[ALLOWED])
    if extra.get(FORM) == "duration" and isinstance(info.type, types.FloatType):
        return 'a duration such as "100s", "5m" or "1h30m", or a number of seconds' + _describe_bounds(info.type)
    return describe(info.type)


def _describe_bounds(info: types.IntType | types.FloatType) -> str:
    parts = [
        f"{word} {format_value(limit)}"
        for word, limit in (
            ("of at least", info.ge),
            ("more than", info.gt),
            ("of at most", info.le),
            ("less than", info.lt),
        )
        if limit is not None
    ]
    return " " + " and ".join(parts) if parts else ""


def _describe_length(least: int | None, most: int | None, unit: str) -> str:
    parts = [f"{word} {limit}" for word, limit in (("at least", least), ("at most", most)) if limit is not None]
    return f" of {' and '.join(parts)} {unit}" if parts else ""


def _one_of(choices: Iterable[object]) -> str:
    return "one of " + ", ".join(str(each) if isinstance(each, str) else format_value(each) for each in choices)


def _child_path(path: str, key: object) -> str:
    text = key if isinstance(key, str) else format_value(key)
    if isinstance(key, str) and (not key or re.search(r"[.\[\]\s]", key)):
        text = f'["{key}"]'
        return f"{path}{text}"
    return f"{path}.{text}" if path else text

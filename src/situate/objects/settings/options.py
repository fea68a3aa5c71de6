"""One settings type for all sources of options: flags, environment, file, mapping.

The type is a frozen msgspec struct. Each field has a `msgspec.Meta(description=…)`, and all forms follow from this
table. A flag has precedence over an environment variable, a variable over a file, and a file over the default. All
values are then checked together. A mistake names its flag, variable or key. `situate.objects.settings.flags` makes
flags for argparse and typer. The callers read the environment and files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect as types

from situate.objects.settings.overrides import Override, override_from_text, with_overrides
from situate.objects.settings.section import FORM, Mistake, format_value, parse_section, spelling_hint
from situate.objects.values.durations import format_duration

FLAG: Final = "situate.flag"
"""Key of `msgspec.Meta(extra=…)`: the flag's name if it differs from the field's name."""
ENVIRONMENT_PREFIX: Final = "SITUATE_"
_NUMBER: Final = re.compile(r"[-+]?\d{1,19}(\.\d+)?", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*[-_]?", re.ASCII)
T = TypeVar("T")


class BadOptions(ValueError):
    """The mistakes that the user must correct; `str()` is one line for each mistake."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table, with a prefix."""

    field: str
    """The name in the struct."""
    key: str
    """The name in a file."""
    flag: str
    """With its dashes."""
    variable: str
    """The name in the environment."""
    help: str
    leaves: tuple[types.Type, ...]
    """The types of a value, without unions."""
    metavar: str
    """The placeholder of a value in the help."""
    example: object = None
    """An example value of a required option."""

    @property
    def dest(self) -> str:
        """The name under which argparse and typer store the value."""
        return self.flag[2:].replace("-", "_")

    @property
    def is_switch(self) -> bool:
        return len(self.leaves) == 1 and isinstance(self.leaves[0], types.BoolType)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is given as K=V, once for each key."""
        return any(isinstance(each, types.DictType) for each in self.leaves)

    def matches_key(self, key: str) -> bool:
        """Return whether a key of a mapping names this option, in the form of files, of Python or of flags."""
        return key == self.key or key.replace("-", "_") == self.field or _snake_case(key) == self.field


def options_of(kind: Any, prefix: str = "") -> tuple[Option, ...]:
    """Return the table. `prefix`, such as `reports`, precedes each flag and is part of each variable in capitals."""
    return _build_options(kind, prefix)


@cache
def _build_options(kind: Any, prefix: str) -> tuple[Option, ...]:
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ValueError(f"prefix: found {format_value(prefix)}, allowed: lower-case letters and digits joined by '-'")
    before = prefix.rstrip("-_").replace("_", "-") + "-" if prefix else ""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    return tuple(_option(each, before) for each in info.fields)


def _option(row: types.Field, before: str) -> Option:
    metadata = row.type
    assert isinstance(metadata, types.Metadata), f"{row.name} has no description"
    extra = metadata.extra or {}
    flag = f"{before}{extra.get(FLAG, row.name.replace('_', '-'))}"
    variable = ENVIRONMENT_PREFIX + flag.replace("-", "_").upper()
    leaves = tuple(_leaves(metadata))
    is_duration = _has_duration(metadata)
    default = "" if row.required else _default(row, is_duration=is_duration)
    schema = metadata.extra_json_schema or {}
    said = f"{schema['description']} [{default}{variable}]"
    metavar = "DURATION" if is_duration else _metavar(row.name, leaves)
    example = next(iter(schema.get("examples", ())), None)
    return Option(row.name, row.encode_name, f"--{flag}", variable, said, leaves, metavar, example)


def _metavar(name: str, leaves: Iterable[types.Type]) -> str:
    for leaf in leaves:
        match leaf:
            case types.LiteralType():
                return "|".join(map(str, leaf.values))
            case types.EnumType():
                return "|".join(str(each.value) for each in leaf.cls)
            case types.DictType():
                return "K=V"
            case types.IntType() | types.FloatType():
                return "NUMBER"
    return name.rpartition("_")[2].upper()


def _default(row: types.Field, *, is_duration: bool) -> str:
    value = row.default
    if value is None or value is msgspec.NODEFAULT:
        return ""
    if is_duration and isinstance(value, int | float) and not isinstance(value, bool):
        return f"default {format_duration(value)}; "
    text = f"{value:g}" if isinstance(value, float) else format_value(value)
    return f"default {value if isinstance(value, str) else text}; "


def _has_duration(info: types.Type) -> bool:
    match info:
        case types.Metadata():
            return (info.extra or {}).get(FORM) == "duration" or _has_duration(info.type)
        case types.UnionType():
            return any(map(_has_duration, info.types))
    return False


def _leaves(info: types.Type) -> Iterator[types.Type]:
    match info:
        case types.Metadata():
            yield from _leaves(info.type)
        case types.UnionType():
            for each in info.types:
                yield from _leaves(each)
        case _:
            yield info


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of values, in descending order of precedence."""

    flags: Mapping[str, object]
    """By `Option.dest`: texts as given on the command line, lists of them, or values."""
    environment: Mapping[str, str]
    """An empty variable counts as not set."""
    file: object = None
    """Plain data, a mapping; None without a file."""
    file_path: str = ""
    """The path of the data in the file, such as `supervisor`."""
    fallbacks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By field, the variable and the text that replace its default."""


def read_options(kind: type[T], sources: Sources, prefix: str = "") -> tuple[T | None, tuple[Mistake, ...]]:
    """Return the settings, or None and every mistake."""
    options = options_of(kind, prefix)
    data, mistakes = _values_of_file(options, sources.file, sources.file_path)
    places = {option.field: option.flag for option in options}
    given = {option.key: _join_path(sources.file_path, option.key) for option in options if option.key in data}
    for option in options:
        name: str = option.variable
        value: object = sources.environment.get(option.variable) or None
        if value is None and option.key not in data and option.field in sources.fallbacks:
            name, value = sources.fallbacks[option.field]
        if (flag := sources.flags.get(option.dest)) is not None:
            name, value = option.flag, flag
        if value is None:
            continue
        given[option.key] = name
        plain, wrong = _value_of_text(option, value, name)
        mistakes.extend(wrong)
        data.pop(option.key, None)
        if plain is not None and not wrong:
            data[option.key] = plain
    by_key = {option.key: given.get(option.key, places[option.field]) for option in options}
    unread = {each.path for each in mistakes}
    made, found = _parse_reporting_conflicts(kind, options, data)
    for each in found:
        placed = _with_source_name(each, by_key)
        if not (placed.path in unread and not each.found):  # an unreadable value is not also reported as missing
            mistakes.append(placed)
    return (None if mistakes else made), tuple(mistakes)


def require_options(kind: type[T], sources: Sources, prefix: str = "") -> T:
    """Return the settings as `read_options` does. Raises `BadOptions` with every mistake."""
    options, mistakes = read_options(kind, sources, prefix)
    if options is None:
        raise BadOptions(mistakes)
    return options


def read_mapping(kind: type[T], data: Mapping[str, Any], path: str = "") -> T:
    """Return the settings of a mapping alone. Raises `BadOptions`; its paths are keys, under `path`."""
    options = options_of(kind)
    plain, mistakes = _values_of_file(options, data, path)
    made, found = _parse_reporting_conflicts(kind, options, plain, path)
    if made is None or mistakes:
        raise BadOptions([*mistakes, *found])
    return made


def _parse_reporting_conflicts(
    kind: type[T], options: Iterable[Option], data: Mapping[str, Any], path: str = ""
) -> tuple[T | None, list[Mistake]]:
    """Parse as `parse_section` does, but report conflicts between fields even if another field is invalid."""
    made, found = parse_section(data, kind, path)
    if made is not None:
        return made, []
    wrong = {
        option.key for option in options if any(_is_below(each.path, _join_path(path, option.key)) for each in found)
    }
    rest = {key: value for key, value in data.items() if key not in wrong}
    stand_ins = {option.key: option.example for option in options if option.key in wrong and option.example is not None}
    _, between = parse_section({**stand_ins, **rest}, kind, path)
    known = {each.path for each in found}
    return None, [*found, *(each for each in between if each.path not in known)]


def _is_below(path: str, key: str) -> bool:
    return path == key or path.startswith((f"{key}.", f"{key}["))


def _values_of_file(options: Iterable[Option], data: object, path: str) -> tuple[dict[str, Any], list[Mistake]]:
    """Return the values by the keys of the struct; a key may be written in any of the three ways."""
    if data is None:
        return {}, []
    if not isinstance(data, Mapping):
        return {}, [Mistake(path, format_value(data), "a mapping of options")]
    found: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    options = [*options]
    keys = [option.key for option in options]
    for key, value in data.items():
        option = next((each for each in options if isinstance(key, str) and each.matches_key(key)), None)
        where = _join_path(path, str(key))
        if option is None:
            hint = spelling_hint(str(key), keys)
            mistakes.append(Mistake(where, format_value(value), "only the keys " + ", ".join(keys), hint))
        elif option.key in found:
            mistakes.append(Mistake(where, format_value(value), f"{option.key} once"))
        else:
            found[option.key] = value
    return found, mistakes


def _with_source_name(mistake: Mistake, by_key: Mapping[str, str]) -> Mistake:
    """Replace the field's name in a mistake with the flag, the variable or the key."""
    key = re.split(r"[.\[]", mistake.path, maxsplit=1)[0]
    if key not in by_key:
        return mistake
    return replace(mistake, path=by_key[key] + mistake.path[len(key) :])


def _value_of_text(option: Option, value: object, name: str) -> tuple[object, list[Mistake]]:
    """Return the value of the text for this option; None means not set."""
    if option.is_mapping and isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    if not isinstance(value, str):
        return value, []
    if option.is_mapping and ("=" in value or len(option.leaves) == 1):
        return _mapping_of_pairs([*_split_pairs(value)], name)
    if value == "none" and any(isinstance(each, types.NoneType) for each in option.leaves):
        return None, []
    if any(isinstance(each, types.BoolType) for each in option.leaves) and value in ("true", "false"):
        return value == "true", []
    numeric = any(isinstance(each, types.IntType | types.FloatType) for each in option.leaves)
    if numeric and _NUMBER.fullmatch(value):
        return (float(value) if "." in value else int(value)), []
    return value, []


def _mapping_of_pairs(pieces: Iterable[str], name: str) -> tuple[object, list[Mistake]]:
    overrides: list[Override] = []
    mistakes: list[Mistake] = []
    for piece in pieces:
        key, equals, text = piece.partition("=")
        if not equals:
            mistakes.append(Mistake(name, format_value(piece), "K=V, such as slow_start_max_share=0.5"))
            continue
        override, wrong = override_from_text(key.strip(), text.strip(), name)
        mistakes.extend(wrong)
        if override is not None:
            overrides.append(override)
    data, wrong = with_overrides({}, overrides)
    return data, [*mistakes, *(replace(each, path=f"{name} {each.path}") for each in wrong)]


def _split_pairs(text: str) -> Iterator[str]:
    """Split at commas outside brackets."""
    depth, piece = 0, ""
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            yield piece
            piece = ""
        else:
            piece += letter
    if piece.strip():
        yield piece


def _snake_case(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1]}", key).lower()


def _join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key

"""Check the forms of names, labels and keys, with upstream's error texts.

After `k8s.io/apimachinery/pkg/util/validation` and `pkg/api/validate/content`. Every function returns the texts of the
problems, or an empty tuple for a valid value. Results are cached, because the same few names are checked repeatedly.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

Problems = tuple[str, ...]

_LABEL_1123: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_PERCENT: Final = "[0-9]+%"

_ALNUM: Final = "and must start and end with an alphanumeric character"
_KEY_TEXT: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM}"


def _example(text: str, pattern: str, examples: tuple[str, ...]) -> str:
    return (
        f"{text} (e.g. "
        + " or ".join(f"'{example}', " for example in examples)
        + f"regex used for validation is '{pattern}')"
    )


def _too_long(limit: int, unit: str = "characters") -> str:
    """Return the text for a name that is too long.

    Upstream counts label keys and values in bytes and other names in characters, and names the unit.
    """
    return f"must be no more than {limit} {unit}"


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


@lru_cache(maxsize=65536)
def dns_label(value: str) -> Problems:
    """Check a lowercase RFC 1123 label."""
    found: list[str] = []
    if len(value) > 63:
        found.append(_too_long(63))
    if not _matches(_LABEL_1123, value):
        if _matches(_SUBDOMAIN, value):
            found.append("must not contain dots")
        else:
            text = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM}"
            found.append(_example(text, _LABEL_1123, ("my-name", "123-abc")))
    return tuple(found)


@lru_cache(maxsize=65536)
def dns_subdomain(value: str) -> Problems:
    """Check a lowercase RFC 1123 subdomain."""
    found: list[str] = []
    if len(value) > 253:
        found.append(_too_long(253))
    if not _matches(_SUBDOMAIN, value):
        text = (
            f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM}"
        )
        found.append(_example(text, _SUBDOMAIN, ("example.com",)))
    return tuple(found)


@lru_cache(maxsize=4096)
def dns_1035_label(value: str) -> Problems:
    """Check an RFC 1035 label, the form of Service names."""
    found: list[str] = []
    if len(value) > 63:
        found.append(_too_long(63))
    if not _matches(_LABEL_1035, value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        found.append(_example(text, _LABEL_1035, ("my-name", "abc-123")))
    return tuple(found)


@lru_cache(maxsize=65536)
def label_key(value: str) -> Problems:
    """Check a qualified name: an optional DNS prefix, a slash and a name."""
    parts = value.split("/")
    found: list[str] = []
    if len(parts) > 2:
        form = _example(_KEY_TEXT, _KEY, ("MyName", "my.name", "123-abc"))
        return (f"a valid label key {form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        found += [f"prefix part {problem}" for problem in (dns_subdomain(parts[0]) if parts[0] else ())]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {_too_long(63, 'bytes')}")
    if not _matches(_KEY, name):
        found.append("name part " + _example(_KEY_TEXT, _KEY, ("MyName", "my.name", "123-abc")))
    return tuple(found)


@lru_cache(maxsize=65536)
def label_value(value: str) -> Problems:
    """Check a label value: empty, or like the name of a label key."""
    found: list[str] = []
    if len(value) > 63:
        found.append(_too_long(63, "bytes"))
    if not _matches(f"({_KEY})?", value):
        text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ALNUM
        found.append(_example(text, f"({_KEY})?", ("MyValue", "my_value", "12345")))
    return tuple(found)


@lru_cache(maxsize=4096)
def path_segment(value: str) -> Problems:
    """Check a text that must fit in one step of a URL path, such as the name of a Role."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


@lru_cache(maxsize=4096)
def config_key(value: str) -> Problems:
    """Check a key of a ConfigMap or Secret."""
    found: list[str] = []
    if len(value) > 253:
        found.append(_too_long(253))
    if not _matches(_CONFIG_KEY, value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        found.append(_example(text, _CONFIG_KEY, ("key.name", "KEY_NAME", "key-name")))
    if value in (".", ".."):
        found.append(f"must not be '{value}'")
    elif value.startswith(".."):
        found.append("must not start with '..'")
    return tuple(found)


@lru_cache(maxsize=4096)
def variable_name(value: str) -> Problems:
    """Check the name of an environment variable: printable ASCII other than `=`."""
    if not value or all(" " <= char <= "~" and char != "=" for char in value):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


@lru_cache(maxsize=4096)
def port_name(value: str) -> Problems:
    """Check an IANA service name."""
    found: list[str] = []
    if len(value) > 15:
        found.append(_too_long(15))
    if not _matches("[-a-z0-9]+", value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value and "-" in (value[0], value[-1]):
        found.append("must not begin or end with a hyphen")
    return tuple(found)


def port_number(value: int) -> Problems:
    """Check that the number is in 1 to 65535."""
    return () if 1 <= value <= 65535 else ("must be between 1 and 65535, inclusive",)


def percent(value: str) -> Problems:
    """Check a percentage such as `25%`."""
    if _matches(_PERCENT, value):
        return ()
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return (_example(text, _PERCENT, ("1%", "93%")),)

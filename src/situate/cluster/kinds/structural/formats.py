"""Check the string formats that the API server checks in custom resources. Other formats have no effect.

After `kube-openapi/pkg/validation/strfmt` and the list of supported formats in apiextensions-apiserver.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Final

_UUID: Final = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?{version}[0-9a-f]{3}-?{variant}[0-9a-f]{3}-?[0-9a-f]{12}"
_HOST: Final = (
    r"(?=.{1,255}$)([a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.)*[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.?"
)
_DURATION: Final = r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0"
_WORDY_DURATION: Final = (
    r"\s*((\d+)\s*(nanoseconds?|nanos?|ns|microseconds?|micros?|us|µs|milliseconds?|millis?|ms|seconds?|secs?|s"
    r"|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|wks?|w)\s*)+"
)


def _pattern_test(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid_test(version: str, variant: str) -> Callable[[str], bool]:
    return _pattern_test(_UUID.replace("{version}", version).replace("{variant}", variant))


def _parser_test(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


def _date_time(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", text):
        return False
    return _parser_test(datetime.fromisoformat)(text[:10] + "T" + text[11:19])


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _date_time,
    "date": _parser_test(date.fromisoformat),
    "datetime": _date_time,
    "byte": _byte,
    "duration": lambda text: bool(re.fullmatch(_DURATION, text) or re.fullmatch(_WORDY_DURATION, text)),
    "uuid": _uuid_test("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _uuid_test("3", "[0-9a-f]"),
    "uuid4": _uuid_test("4", "[89ab]"),
    "uuid5": _uuid_test("5", "[89ab]"),
    "ipv4": _parser_test(ipaddress.IPv4Address),
    "ipv6": _parser_test(ipaddress.IPv6Address),
    "ip": _parser_test(ipaddress.ip_address),
    "cidr": _parser_test(lambda text: ipaddress.ip_network(text, strict=False)),
    "mac": _pattern_test(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"),
    "email": _pattern_test(r"[^@\s]+@[^@\s]+"),
    "hostname": _pattern_test(_HOST),
    "uri": _pattern_test(r"([A-Za-z][A-Za-z0-9+.-]*:.+|/\S*)"),
    "creditcard": _pattern_test(r"\d{12,19}"),
    "isbn": _pattern_test(r"[\d -]{9,17}[\dX]"),
    "isbn10": _pattern_test(r"(\d[ -]?){9}[\dX]"),
    "isbn13": _pattern_test(r"(\d[ -]?){12}\d"),
    "ssn": _pattern_test(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern_test(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern_test(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "bsonobjectid": _pattern_test("[0-9a-fA-F]{24}"),
    "k8s-short-name": _pattern_test(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    "k8s-long-name": _pattern_test(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
}

"""The arguments of plugins: JSON in a string, parsed as strictly as Go's decoder with unknown fields disallowed.

Field names match in any case, a missing field is zero, and `null` gives zeros. A text that Go refuses is refused.
"""

from __future__ import annotations

import msgspec

INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)


class InvalidArguments(ValueError):
    """The text of `Args` is invalid for the plugin."""

    def __init__(self, found: object, allowed: str) -> None:
        super().__init__(f"found {found!r}; allowed: {allowed}")
        self.found = found
        self.allowed = allowed


def integer_argument(text: str | None, field: str, allowed: range) -> int:
    """Return the one integer that a plugin takes, from a text such as ``{"MaxSkew": 2}``."""
    allowed_text = f'{{"{field}": N}} in a string, N an integer from {allowed[0]} to {allowed[-1]}'
    if text is None:
        raise InvalidArguments(None, allowed_text)
    try:
        value = msgspec.json.decode(text, type=dict[str, object] | None)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidArguments(text, allowed_text) from error
    number: object = 0
    for name, found in (value or {}).items():
        if name.casefold() != field.casefold():
            raise InvalidArguments(text, allowed_text)
        number = 0 if found is None else found
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise InvalidArguments(text, allowed_text)
    return number

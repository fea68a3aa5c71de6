"""Translate regular expressions of schemas from RE2 to Python's engine.

Syntax that RE2 lacks (look-around, back-references, possessive and atomic groups) is refused, as upstream does. `$` and
`\\z` match the end of the text, classes cover ASCII only, and `[[:alpha:]]` is expanded.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_NOT_IN_RE2: Final = re.compile(r"\(\?(?:=|!|<=|<!|>|\()|\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]|[*+?}]\+")


class PatternError(ValueError):
    """The pattern is invalid; the text gives the reason."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for `search`. Raises `PatternError` if RE2 would refuse the pattern."""
    refused = _NOT_IN_RE2.search(pattern)
    if refused is not None:
        raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{refused[0]}`")
    try:
        return re.compile(_translate_pattern(pattern), re.ASCII)
    except re.error as error:
        raise PatternError(_go_error_text(error, pattern)) from None


def _translate_pattern(pattern: str) -> str:
    out: list[str] = []
    in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\" and position + 1 < len(pattern):
            pair = pattern[position : position + 2]
            out.append(r"\Z" if pair == r"\z" else pair)
            position += 2
            continue
        named = re.match(r"\[:(\^?)(\w+):\]", pattern[position:]) if in_class else None
        if named is not None:
            if named[2] not in _POSIX or named[1]:
                raise PatternError(f"error parsing regexp: invalid character class range: `{named[0]}`")
            out.append(_POSIX[named[2]])
            position += len(named[0])
            continue
        if char == "[" and not in_class:
            in_class = True
            opening = re.match(r"\[\^?\]?", pattern[position:])
            text = opening[0] if opening else char
            out.append(text.replace("]", r"\]"))
            position += len(text)
            continue
        if char == "]":
            in_class = False
        out.append(r"\Z" if char == "$" and not in_class else r"\[" if char == "[" and in_class else char)
        position += 1
    return "".join(out)


def _go_error_text(error: re.error, pattern: str) -> str:
    """Return Go's text for the most common mistakes."""
    text = str(error.msg)
    if "unterminated subpattern" in text:
        return f"error parsing regexp: missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in text:
        return f"error parsing regexp: unexpected ): `{pattern}`"
    if "unterminated character set" in text:
        return f"error parsing regexp: missing closing ]: `{pattern[error.pos or 0 :]}`"
    if "nothing to repeat" in text:
        return f"error parsing regexp: missing argument to repetition operator: `{pattern[error.pos or 0]}`"
    return f"error parsing regexp: {text}: `{pattern}`"

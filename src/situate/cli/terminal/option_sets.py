"""Let a command take a set of options as one parameter: a dataclass whose fields are flags.

A function that a command calls gets the same set, so each flag is declared once and passed on as a whole.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])


def with_option_sets(function: F) -> F:
    """Replace each parameter of a command whose type is a dataclass with the flags of that set.

    A field is a flag if it is annotated with an option. Fields of a class come before those of its bases. A subclass
    may declare a field again, to change its place or, without an option, to remove the flag.
    """
    signature = inspect.signature(function, eval_str=True)
    sets: dict[str, tuple[Any, list[inspect.Parameter]]] = {
        each.name: (each.annotation, _flags(each.annotation))
        for each in signature.parameters.values()
        if is_dataclass(each.annotation)
    }
    shown: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        shown += sets[each.name][1] if each.name in sets else [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        for name, (kind, flags) in sets.items():
            values[name] = kind(**{flag.name: values.pop(flag.name) for flag in flags})
        return function(**values)

    command.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {each.name: each.annotation for each in shown}
    del command.__wrapped__  # otherwise typer would read the signature of the wrapped function
    return command  # type: ignore[return-value]  # called by typer, by keywords


def _flags(options: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    names = dict.fromkeys(name for each in options.__mro__ for name in inspect.get_annotations(each))
    defaults = {each.name: each.default for each in fields(options)}
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if defaults[name] is MISSING else defaults[name],
            annotation=hints[name],
        )
        for name in names
        if get_origin(hints[name]) is Annotated
    ]

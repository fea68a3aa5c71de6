"""Flags of argparse, and parameters of typer, from a settings type: see `situate.objects.settings.options`.

A flag that is not given leaves no value, so that the environment or a file can set the value.
"""

from __future__ import annotations

import argparse
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from situate.objects.settings.options import BadOptions, Option, options_of
from situate.objects.settings.section import Mistake

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def add_flags(parser: argparse.ArgumentParser, kind: type[Any], title: str, prefix: str = "") -> None:
    """Add the options as a group of the help.

    A flag that another table has added to the parser is shared. A flag that is not given leaves no value in the
    namespace, so that the environment can set the value. `read_namespace` reads the given values.
    """
    group = parser.add_argument_group(title)
    for option in options_of(kind, prefix):
        if parser.get_default(option.dest) == argparse.SUPPRESS:
            continue
        told = option.help.replace("%", "%%")
        if option.is_switch:
            group.add_argument(
                option.flag, nargs="?", const="true", default=argparse.SUPPRESS, metavar="true|false", help=told
            )
            off = f"--no-{option.flag[2:]}"
            group.add_argument(
                off, dest=option.dest, action="store_const", const="false", default=argparse.SUPPRESS, help="the same"
            )
        elif option.is_mapping:
            group.add_argument(
                option.flag, action="append", default=argparse.SUPPRESS, metavar=option.metavar, help=told
            )
        else:
            group.add_argument(option.flag, default=argparse.SUPPRESS, metavar=option.metavar, help=told)


def parse_options(
    parser: argparse.ArgumentParser, *kinds: type[Any], arguments: Sequence[str] | None = None, prefix: str = ""
) -> tuple[argparse.Namespace, *tuple[Any, ...]]:
    """Return the parsed command line, and options of each kind from it.

    The mistakes of all kinds end the program together, with status 2, as those of argparse do. `arguments` None means
    the arguments of the process.
    """
    namespace = parser.parse_args(arguments)
    made: list[Any] = []
    mistakes: list[Mistake] = []
    for kind in kinds:
        try:
            made.append(kind.from_namespace(namespace, prefix=prefix))
        except BadOptions as bad:
            mistakes.extend(bad.mistakes)
    if mistakes:
        told = dict.fromkeys(map(str, mistakes))  # a flag that two kinds share is reported once
        parser.error("\n".join(told))
    return namespace, *made


def with_flags(kind: type[T], read: Callable[[Mapping[str, object]], T], prefix: str = "") -> Callable[[F], F]:
    """Return a decorator for typer commands that replaces a parameter of this type with its options.

    `read` builds the settings from the given values, by `Option.dest`. Its `BadOptions` ends the command with status 2.
    """
    import typer

    options = options_of(kind, prefix)

    def decorate(function: F) -> F:
        signature = inspect.signature(function, eval_str=False)
        hints = get_type_hints(function, include_extras=True)
        target = next((name for name in signature.parameters if hints.get(name) is kind), None)
        if target is None:
            raise TypeError(f"{function.__qualname__} has no parameter of the type {kind.__name__}")
        others = {
            each.name: each.replace(annotation=hints.get(each.name, each.annotation))
            for each in signature.parameters.values()
            if each.name != target
        }
        own = {option.dest: _parameter(option) for option in options if option.dest not in others}

        @functools.wraps(function)
        def command(**values: Any) -> Any:
            given = {option.dest: _none_if_empty(values.get(option.dest)) for option in options}
            passed = {name: value for name, value in values.items() if name in others}
            try:
                settings = read(given)
            except BadOptions as bad:
                raise typer.BadParameter(str(bad)) from None
            return function(**passed, **{target: settings})

        keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*others.values(), *own.values())]
        shown: Any = command
        shown.__signature__ = signature.replace(parameters=keywords)
        shown.__annotations__ = {each.name: each.annotation for each in keywords} | {"return": hints.get("return")}
        del shown.__wrapped__  # otherwise typer would read the signature of the wrapped function
        return cast("F", shown)

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    import typer

    annotation: Any
    if option.is_switch:
        said = typer.Option(f"{option.flag}/--no-{option.flag[2:]}", help=option.help, show_default=False)
        annotation = Annotated[bool | None, said]
    elif option.is_mapping:
        said = typer.Option(option.flag, metavar=option.metavar, help=option.help, show_default=False)
        annotation = Annotated[list[str] | None, said]
    else:
        said = typer.Option(option.flag, metavar=option.metavar, help=option.help, show_default=False)
        annotation = Annotated[str | None, said]
    return inspect.Parameter(option.dest, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _none_if_empty(value: object) -> object:
    return None if value == [] or value == () else value

"""Add the options of supervisors and executors to command lines, with argparse or typer."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import overload

from situate.objects.settings.flags import F, add_flags, with_flags
from situate.sharding.executor.controller.executor_options import ExecutorOptions
from situate.sharding.supervisor.controller.config.options import SupervisorOptions


def add_supervisor_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags to a parser; `SupervisorOptions.from_namespace` reads them."""
    add_flags(parser, SupervisorOptions, "supervisor", prefix)


def add_executor_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags to a parser; `ExecutorOptions.from_namespace` reads them."""
    add_flags(parser, ExecutorOptions, "executor", prefix)


@overload
def with_supervisor_options(function: F, /) -> F: ...
@overload
def with_supervisor_options(*, prefix: str = "") -> Callable[[F], F]: ...
def with_supervisor_options(function: F | None = None, /, *, prefix: str = "") -> F | Callable[[F], F]:
    """Decorate a typer command: its parameter of type `SupervisorOptions` becomes the flags."""

    def read(given: Mapping[str, object]) -> SupervisorOptions:
        return SupervisorOptions.from_namespace(argparse.Namespace(**given), prefix=prefix)

    decorate: Callable[[F], F] = with_flags(SupervisorOptions, read, prefix)
    return decorate if function is None else decorate(function)


@overload
def with_executor_options(function: F, /) -> F: ...
@overload
def with_executor_options(*, prefix: str = "") -> Callable[[F], F]: ...
def with_executor_options(function: F | None = None, /, *, prefix: str = "") -> F | Callable[[F], F]:
    """Decorate a typer command: its parameter of type `ExecutorOptions` becomes the flags."""

    def read(given: Mapping[str, object]) -> ExecutorOptions:
        return ExecutorOptions.from_namespace(argparse.Namespace(**given), prefix=prefix)

    decorate: Callable[[F], F] = with_flags(ExecutorOptions, read, prefix)
    return decorate if function is None else decorate(function)

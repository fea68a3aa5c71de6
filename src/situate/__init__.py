"""Schedulers for Kubernetes: placement of virtual replicas, virtual machines, spot workloads and operators' shards."""

from __future__ import annotations

from functools import cache

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    """Return `__version__`, read on first use, because that takes as long as all other work of a shell completion."""
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("situate")

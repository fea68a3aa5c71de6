"""How building or running the control plane fails."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """A sentence for a person: what was attempted, what came of it, and what to do next."""


class NotFetched(ControlPlaneError):
    """A program was not built because this machine reaches no Go modules."""

"""The one way in which building or running the control plane fails."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """A sentence for a person: what was attempted, what came of it, and what to do next."""

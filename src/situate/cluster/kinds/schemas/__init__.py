"""Type information of the built-in kinds of Kubernetes and of custom resources."""

from __future__ import annotations

from situate.cluster.kinds.schemas.catalog import built_in_schema
from situate.cluster.kinds.schemas.nodes import Schema

__all__ = ["Schema", "built_in_schema"]

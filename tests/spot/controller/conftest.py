from __future__ import annotations

from tests.spot.controller.playground import playground, port

__all__ = ("playground", "port")

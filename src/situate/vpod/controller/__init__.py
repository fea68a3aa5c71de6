"""SHELL: runs vpod against an API server: one StatefulSet, its vpods, one leader.

`informers` watches objects and `sources` reads them as vpods. `apply` and `scaler` decide, and `writer` writes.
`notify` and `unclaimed_objects` report. `controller` connects these modules.
"""

from situate.vpod.controller.controller import VPodController

__all__ = ["VPodController"]

"""SHELL: runs vpod against an API server: one StatefulSet, its vpods, one leader.

`informers` sees and `sources` reads; `apply` and `scaler` decide, `writer` performs; `notify` and `unclaimed_objects`
tell; `controller` ties them together.
"""

from situate.vpod.controller.controller import VPodController

__all__ = ["VPodController"]

"""SHELL: runs vpod against an API server: one StatefulSet, its vpods, one leader.

`watched` sees and `sources` reads; `placing` and `scaling` decide, `writing` performs; `reporting` and `unclaimed`
tell; `controller` ties them together.
"""

from situate.vpod.controller.controller import VPodController

__all__ = ["VPodController"]

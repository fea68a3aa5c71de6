"""SHELL: runs vpod against an API server: one StatefulSet, its vpods, one leader.

`watched` sees, `placing` and `scaling` decide and act, `reporting` tells; `controller` ties them together.
"""

from situate.vpod.controller.controller import VPodController

__all__ = ["VPodController"]

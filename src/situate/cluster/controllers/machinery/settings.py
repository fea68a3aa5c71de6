"""How the machinery runs: which controllers, and at which pace. Upstream's defaults unless said."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The pace of the stand-in kubelets; all times in seconds."""

    start_delay: float = 0.0
    """From binding to Running and Ready."""
    stop_delay: float = 0.5
    """How long containers take to end; never longer than the pod's grace period."""
    resize_delay: float = 0.0
    """From a resize to its report in the status."""
    jitter: float = 0.0
    """Part of a delay that is added at random: 0.2 makes 1 s to 1.0 up to 1.2 s."""
    lease_renewal: float = 10.0
    """Between two heartbeats. 0 writes no Leases: a kubelet then counts as alive until it is stopped."""
    lease_duration: int = 40
    pod_network: str = "10.128.0.0/9"
    """The addresses of Pods. Those of the loopback network are right where processes of this machine stand for Pods."""
    crash_back_off: float = 10.0
    """The first back-off of a crashing container; doubles up to 300."""


@dataclass(frozen=True, slots=True)
class NodeLifecycleSettings:
    """When a silent node is given up, in seconds and nodes per second (kube-controller-manager's flags)."""

    monitor_period: float = 5.0
    monitor_grace_period: float = 50.0
    startup_grace_period: float = 60.0
    eviction_rate: float = 0.1
    secondary_eviction_rate: float = 0.01
    large_cluster_size: int = 50
    unhealthy_zone_threshold: float = 0.55


@dataclass(frozen=True, slots=True)
class MachinerySettings:
    disabled: frozenset[str] = frozenset()
    """Names of controllers that do not run, such as `scheduler` or `kubelet`; see `Machinery.names`."""
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    node_lifecycle: NodeLifecycleSettings = field(default_factory=NodeLifecycleSettings)
    events: bool = True
    """Whether controllers write Events."""
    reconciles_per_step: int = 1000
    """A step ends after so many looks and writes together; the rest is due at once."""
    node_quarantine: float = 40.0
    """A pod bound to a node that does not exist is deleted after so many seconds."""

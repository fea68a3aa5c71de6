"""Settings of the machinery: its controllers and their pace. Defaults are upstream's unless stated."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Pace of the simulated kubelets; all times in seconds."""

    start_delay: float = 0.0
    """Time from binding to Running and Ready."""
    stop_delay: float = 0.5
    """Time that containers take to end; never longer than the pod's grace period."""
    resize_delay: float = 0.0
    """Time from a resize to its report in the status."""
    jitter: float = 0.0
    """Largest random addition to a delay, as a fraction: 0.2 turns 1 s into 1.0 to 1.2 s."""
    lease_renewal: float = 10.0
    """Time between two heartbeats. 0 writes no Leases: a kubelet then counts as alive until it is stopped."""
    lease_duration: int = 40
    pod_network: str = "10.128.0.0/9"
    """Addresses of Pods. Use the loopback network where processes on this machine act as Pods."""
    crash_back_off: float = 10.0
    """First back-off of a crashing container; doubles up to 300."""


@dataclass(frozen=True, slots=True)
class NodeLifecycleSettings:
    """Limits for silent nodes, in seconds and nodes per second (kube-controller-manager's flags)."""

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
    """A step ends after this many reconciles and writes in total; the rest is due at once."""
    node_quarantine: float = 40.0
    """Seconds after which a pod bound to a node that does not exist is deleted."""

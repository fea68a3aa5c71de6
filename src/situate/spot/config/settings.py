"""The `spot:` section of the configuration file. Unknown keys are refused.

The defaults are those of P35. `situate.runtime.configuration.file` reads the file and reloads it when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import EVERYTHING, NOTHING, BadSelector, Selector, selector_of
from situate.objects.settings.section import ALLOWED, FORM, Duration, Mistake, PositiveDuration, format_value
from situate.objects.values.durations import format_duration
from situate.spot.admission.admit import AdmissionSettings
from situate.spot.admission.ledger import ARRIVAL_S
from situate.spot.admission.patch import PlacementTerms
from situate.spot.model.maintenance_windows import LONGEST_S, BadWindow, Window, parse_cron, parse_time_zone
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, pool_tolerations, spot_requirement
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.on_demand_policy import BadPolicy, parse_policy
from situate.spot.workloads.on_demand_target import PolicyRule, TargetRules
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS, OwnerKind

PORT: Final = 9443
LIFE_S: Final = 90 * 24 * 3600.0
SHORTEST_LIFE_S: Final = 60.0
"""With a shorter life, API servers could miss the next certificate before the current one expires."""
Address = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})$",
        extra={ALLOWED: f'host:port, such as ":{PORT}" for every address'},
    ),
]
Positive = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Fraction = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Policy of all workloads that the selectors match. The first matching entry applies.

    Rule: B46.
    """

    namespace_selector: LabelSelector | None = None
    """null: every namespace."""
    workload_selector: LabelSelector | None = None
    """null: every workload."""
    policy: str

    def mistakes(self) -> Iterable[Mistake]:
        try:
            parse_policy(self.policy)
        except BadPolicy as problem:
            yield Mistake("policy", format_value(self.policy), "a valid policy", str(problem))
        yield from _selector_mistakes(
            {"namespaceSelector": self.namespace_selector, "workloadSelector": self.workload_selector}
        )

    def rule(self) -> PolicyRule:
        return PolicyRule(
            _selector(self.namespace_selector, EVERYTHING),
            _selector(self.workload_selector, EVERYTHING),
            parse_policy(self.policy),
        )


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Window in which policy may move pods.

    Rule: B13.
    """

    cron: str
    duration: PositiveDuration
    time_zone: str = "UTC"

    def mistakes(self) -> Iterable[Mistake]:
        try:
            parse_cron(self.cron)
        except BadWindow as problem:
            yield Mistake("cron", format_value(self.cron), "five fields as in crontab(5)", str(problem))
        try:
            parse_time_zone(self.time_zone)
        except BadWindow as problem:
            yield Mistake("timeZone", format_value(self.time_zone), "a time zone", str(problem))
        if self.duration > LONGEST_S:
            yield Mistake("duration", format_duration(self.duration), f"at most {format_duration(LONGEST_S)}")

    def window(self) -> Window:
        return Window(parse_cron(self.cron), self.duration, parse_time_zone(self.time_zone))


class EvictionSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits on moves that only policy requires."""

    cool_down: Duration = 60.0
    per_owner: Positive = 1
    """Moves in flight at a time; at most one for each workload."""
    per_cluster: Positive = 5
    per_hour: Positive = 60
    failures: Positive = 3
    """Successive moves whose replacement finds no node. After that many, the workload is not moved for `stop`."""
    stop: PositiveDuration = 3600.0

    def mistakes(self) -> Iterable[Mistake]:
        if self.per_owner > 1:
            yield Mistake(
                "perOwner", format_value(self.per_owner), "1", "two moves at once leave fewer than replicas - 1 ready"
            )


class ReturnSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Conditions under which overflowed pods return from on-demand nodes to spot nodes.

    Rules: B26, B27.
    """

    enabled: bool = True
    node_age: Duration = 600.0
    calm: Duration = 1800.0
    every: Duration = 600.0
    """Shortest time between two returns of one workload."""
    longest_wait: Duration = 21600.0
    flaps: Positive = 2
    """Number of nodes that came back within `flap` after which the pool is at risk for `distrust`."""
    flap: Duration = 900.0
    distrust: Duration = 7200.0
    restart_cost: Annotated[float, msgspec.Meta(ge=0)] = 0.002
    """Cost of one restart, in the currency of the prices; the saving must exceed it within `pays_within`."""
    pays_within: PositiveDuration = 86400.0


class PriceSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Source of the prices."""

    file: str | None = None
    config_map: str | None = None
    """`namespace/name`, with the document under the key prices.yaml."""
    discount: Fraction = 0.7
    """Discount used without a known price."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.file is not None and self.config_map is not None:
            yield Mistake("configMap", format_value(self.config_map), "null, if file is set", "set only one of the two")
        if self.config_map is not None and self.config_map.count("/") != 1:
            yield Mistake("configMap", format_value(self.config_map), "namespace/name")


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Address, certificate life and time limits of the webhook."""

    address: Address = f":{PORT}"
    """Listen address of the leader; read only at the start."""
    certificate_life: Annotated[float, msgspec.Meta(ge=SHORTEST_LIFE_S, extra={FORM: "duration"})] = LIFE_S
    """Life of each certificate generation; the next one is made at two thirds of it."""
    timeout: Annotated[float, msgspec.Meta(ge=2, le=30, extra={FORM: "duration"})] = 2.0
    """How long API servers wait, in whole seconds; part of the manifest."""
    live_read: PositiveDuration = 0.3
    """Longest time of one live read; an answer may need two reads."""
    reservation: PositiveDuration = 30.0
    release: PositiveDuration = 15.0

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if self.timeout != int(self.timeout):
            yield Mistake("timeout", format_duration(self.timeout), "whole seconds")
        if 2 * self.live_read >= self.timeout - ARRIVAL_S:
            waited, timeout = format_duration(ARRIVAL_S), format_duration(self.timeout)
            allowed = f"less than half of timeout ({timeout}) minus {waited}"
            hint = f"an answer may wait {waited} for promised pods and then read twice"
            yield Mistake("liveRead", format_duration(self.live_read), allowed, hint)


class SpotSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of spot."""

    mode: Literal["enabled", "disabled"] = "enabled"
    """Mode of workloads without a setting of their own."""
    strict: LabelSelector | None = None
    """Namespaces in which pods wait behind a gate until they have a class; null: none, {}: all."""
    gate_by: Literal["webhook", "policy"] = "webhook"
    """Setter of the gate: the webhook, or additionally a MutatingAdmissionPolicy (Kubernetes 1.36 or later). With the
    policy, no pod misses the gate while no replica answers."""
    read_only: bool = False
    safe_deployments: bool = False
    import_keys: bool = False
    owner_kinds: tuple[Literal["Deployment", "StatefulSet", "Rollout", "CloneSet"], ...] = ("Deployment", "StatefulSet")
    """Kinds of workloads that take part; read only at the start."""
    label_nodes: bool = False
    """Whether nodes with a capacity label of their cloud also get the label `node.kubernetes.io/capacity`."""
    policies: tuple[PolicySettings, ...] = ()
    signals: tuple[Signal, ...] = ()
    """Entries that precede those of the built-in table."""
    webhook: WebhookSettings = WebhookSettings()
    evictions: EvictionSettings = EvictionSettings()
    windows: tuple[WindowSettings, ...] = ()
    """Empty: policy may move pods at any time."""
    pend_limit: PositiveDuration = 60.0
    on_demand_full: Literal["wait", "degrade"] = "wait"
    degrade_after: PositiveDuration = 120.0
    autoscaling: bool = False
    """Whether an autoscaler adds on-demand nodes for waiting pods."""
    spot_autoscaling: bool = False
    """Whether an autoscaler adds spot nodes for waiting pods."""
    eviction_toleration: Annotated[float, msgspec.Meta(ge=0, le=300)] | None = 20.0
    """Seconds for which spot pods stay on a lost node; null leaves the defaults of 300 s."""
    return_: ReturnSettings = msgspec.field(default=ReturnSettings(), name="return")
    make_before_break: bool = True
    start: PositiveDuration = 25.0
    """How long pods take to become ready. If the notice is shorter, they are evicted at once."""
    prices: PriceSettings = PriceSettings()

    def mistakes(self) -> Iterable[Mistake]:
        yield from _selector_mistakes({"strict": self.strict})
        if self.gate_by == "policy" and self.strict is None:
            yield Mistake("gateBy", "policy", "webhook, or policy with strict", "without strict, no pod gets a gate")
        if not self.owner_kinds:
            yield Mistake("ownerKinds", "[]", "at least one of " + ", ".join(KINDS), f"default: {DEFAULT_KINDS}")
        for number, signal in enumerate(self.signals):
            if signal.source == "label" and signal.key == CAPACITY_LABEL and signal.value is None:
                yield Mistake(
                    f"signals[{number}].value", "", "a value", "without a value, every value of this label matches"
                )

    @property
    def table(self) -> tuple[Signal, ...]:
        return (*self.signals, *SIGNALS)

    @property
    def kinds(self) -> tuple[OwnerKind, ...]:
        return tuple(KINDS[kind] for kind in self.owner_kinds)

    def rules(self) -> TargetRules:
        return TargetRules(
            self.mode == "enabled",
            tuple(each.rule() for each in self.policies),
            self.safe_deployments,
            self.import_keys,
        )

    def placement_terms(self, avoided: tuple[str, ...] = ()) -> PlacementTerms:
        """Return the terms of each class. `avoided`: hostnames of nodes that end or may end
        (`node_termination.avoided`)."""
        seconds = self.eviction_toleration
        return PlacementTerms(
            on_demand_requirement(self.table),
            spot_requirement(self.table),
            pool_tolerations(self.table),
            avoided,
            eviction_s=None if seconds is None else int(seconds),
        )

    def admission_settings(
        self, epoch: int = 0, avoided: tuple[str, ...] = (), namespace: str = ""
    ) -> AdmissionSettings:
        """Return the settings of `admit`. `epoch` counts leaders. `namespace`: of this installation, whose pods are
        left alone."""
        return AdmissionSettings(
            self.placement_terms(avoided),
            self.rules(),
            self.table,
            self.kinds,
            namespace,
            _selector(self.strict, NOTHING),
            epoch,
        )

    def limits(self) -> Limits:
        """Return the settings of `decide`."""
        back = self.return_
        return Limits(
            cool_down_s=self.evictions.cool_down,
            per_cluster=self.evictions.per_cluster,
            per_hour=self.evictions.per_hour,
            failures=self.evictions.failures,
            stop_s=self.evictions.stop,
            windows=tuple(each.window() for each in self.windows),
            pend_s=self.pend_limit,
            degrade_after_s=self.degrade_after if self.on_demand_full == "degrade" else None,
            on_demand_autoscaling=self.autoscaling,
            spot_autoscaling=self.spot_autoscaling,
            make_before_break=self.make_before_break,
            start_s=self.start,
            eviction_s=None if self.eviction_toleration is None else int(self.eviction_toleration),
            returns=back.enabled,
            node_age_s=back.node_age,
            calm_s=back.calm,
            return_every_s=back.every,
            longest_wait_s=back.longest_wait,
            flaps=back.flaps,
            flap_s=back.flap,
            distrust_s=back.distrust,
            restart_cost=back.restart_cost,
            pays_within_h=back.pays_within / 3600,
            read_only=self.read_only,
        )


def _selector(wire: LabelSelector | None, absent: Selector) -> Selector:
    return absent if wire is None else selector_of(wire)


def _selector_mistakes(selectors: dict[str, LabelSelector | None]) -> Iterable[Mistake]:
    for name, wire in selectors.items():
        try:
            selector_of(wire)
        except BadSelector as problem:
            yield Mistake(name, "", "a label selector", str(problem))

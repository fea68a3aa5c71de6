"""The `spot:` section of the configuration file. Unknown keys are refused.

The defaults are those of P35. `situate.runtime.configuration.file` reads the file and reloads it when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import EVERYTHING, NOTHING, BadSelector, Selector, selector_of
from situate.objects.settings.section import ALLOWED, FORM, Mistake, PositiveDuration, format_value, key_of
from situate.objects.values.durations import format_duration
from situate.spot.admission.admit import AdmissionSettings
from situate.spot.admission.ledger import ARRIVAL_S
from situate.spot.admission.patch import PlacementTerms
from situate.spot.model.maintenance_windows import LONGEST_S, BadWindow, Window, parse_cron, parse_time_zone
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.spot.model.policy_limits import EvictionLimits, Limits, ReturnConditions
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
Fraction = Annotated[float, msgspec.Meta(ge=0, lt=1)]


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
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


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Window in which policy may move pods.

    Rule: B13.
    """

    cron: str
    duration_s: PositiveDuration
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
        if self.duration_s > LONGEST_S:
            yield Mistake("duration", format_duration(self.duration_s), f"at most {format_duration(LONGEST_S)}")

    def window(self) -> Window:
        return Window(parse_cron(self.cron), self.duration_s, parse_time_zone(self.time_zone))


class PriceSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
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


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Address, certificate life and time limits of the webhook."""

    address: Address = f":{PORT}"
    """Listen address of the leader; read only at the start."""
    certificate_life_s: Annotated[float, msgspec.Meta(ge=SHORTEST_LIFE_S, extra={FORM: "duration"})] = LIFE_S
    """Life of each certificate generation; the next one is made at two thirds of it."""
    timeout_s: Annotated[float, msgspec.Meta(ge=2, le=30, extra={FORM: "duration"})] = 2.0
    """How long API servers wait, in whole seconds; part of the manifest."""
    live_read_s: PositiveDuration = 0.3
    """Longest time of one live read; an answer may need two reads."""
    reservation_s: PositiveDuration = 30.0
    release_s: PositiveDuration = 15.0

    def mistakes(self) -> Iterable[Mistake]:
        if int(self.address.rpartition(":")[2]) > 65535:
            yield Mistake("address", format_value(self.address), "a port of at most 65535")
        if self.timeout_s != int(self.timeout_s):
            yield Mistake("timeout", format_duration(self.timeout_s), "whole seconds")
        if 2 * self.live_read_s >= self.timeout_s - ARRIVAL_S:
            waited, timeout = format_duration(ARRIVAL_S), format_duration(self.timeout_s)
            allowed = f"less than half of timeout ({timeout}) minus {waited}"
            hint = f"an answer may wait {waited} for promised pods and then read twice"
            yield Mistake("liveRead", format_duration(self.live_read_s), allowed, hint)


class SpotSettings(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
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
    evictions: EvictionLimits = EvictionLimits()
    windows: tuple[WindowSettings, ...] = ()
    """Empty: policy may move pods at any time."""
    pend_limit_s: PositiveDuration = 60.0
    on_demand_full: Literal["wait", "degrade"] = "wait"
    degrade_after_s: PositiveDuration = 120.0
    autoscaling: bool = False
    """Whether an autoscaler adds on-demand nodes for waiting pods."""
    spot_autoscaling: bool = False
    """Whether an autoscaler adds spot nodes for waiting pods."""
    eviction_toleration_s: Annotated[float, msgspec.Meta(ge=0, le=300)] | None = 20.0
    """Seconds for which spot pods stay on a lost node; null leaves the defaults of 300 s."""
    returns: ReturnConditions = msgspec.field(default=ReturnConditions(), name="return")
    make_before_break: bool = True
    start_s: PositiveDuration = 25.0
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
        seconds = self.eviction_toleration_s
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
        return Limits(
            evictions=self.evictions,
            returns=self.returns,
            windows=tuple(each.window() for each in self.windows),
            pend_s=self.pend_limit_s,
            degrade_after_s=self.degrade_after_s if self.on_demand_full == "degrade" else None,
            on_demand_autoscaling=self.autoscaling,
            spot_autoscaling=self.spot_autoscaling,
            make_before_break=self.make_before_break,
            start_s=self.start_s,
            eviction_s=None if self.eviction_toleration_s is None else int(self.eviction_toleration_s),
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

"""The pages on spot: their settings, metrics, Events, prices and figures are those of the code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from situate.spot.capacity.headroom import WaveCapacity
from situate.spot.config.settings import (
    PolicySettings,
    PriceSettings,
    SpotSettings,
    WebhookSettings,
    WindowSettings,
)
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.model.misplaced_pods import BlockReason
from situate.spot.model.object_names import NAME
from situate.spot.model.policy_limits import EvictionLimits, ReturnConditions
from situate.spot.nodes.node_signals import Signal
from situate.spot.nodes.prices import parse_prices
from situate.spot.nodes.savings import DEFAULT_DISCOUNT, cost_share
from situate.spot.rebalance.decide import ClusterView, State, decide
from situate.spot.report.alternatives import compare_methods, spread_on_demand
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.workloads import on_demand_policy
from situate.spot.workloads.on_demand_policy import on_demand_target, parse_policy
from tests.cli.processes import KUBECTL, environment
from tests.controlplane.ports import ReservedPort
from tests.spot.builders import NOW, cluster, owner, pods
from tests.spot.report.test_plan import Always

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "concepts" / "spot.md").read_text(encoding="utf-8")
SETTINGS = (DOCS / "reference" / "spot-settings.md").read_text(encoding="utf-8")
METRICS = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "getting-started" / "tutorials" / "spot.md").read_text(encoding="utf-8")
CHOOSING = (DOCS / "guides" / "spot" / "choose-policy.md").read_text(encoding="utf-8")
PRICES = (DOCS / "guides" / "spot" / "prices.md").read_text(encoding="utf-8")
NESTED = {
    "policies": PolicySettings,
    "webhook": WebhookSettings,
    "evictions": EvictionLimits,
    "windows": WindowSettings,
    "return": ReturnConditions,
    "prices": PriceSettings,
    "signals": Signal,
}


@pytest.mark.parametrize(("section", "kind"), [("Settings", SpotSettings), *NESTED.items()])
def test_every_setting_is_in_its_table(section: str, kind: type[msgspec.Struct]) -> None:
    (table,) = re.findall(rf"^##+ {section}\n(.*?)^#", SETTINGS, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert named == [*dict.fromkeys(named)]
    assert {field.encode_name for field in msgspec.structs.fields(kind)} == set(named)


def test_the_metrics_are_those_that_are_shown() -> None:
    registry = CollectorRegistry()
    AdmissionMetrics(registry)
    moves = MoveMetrics(registry)
    situation = ClusterView(cluster(owner(2), pods("od:1 spot:1")), Always())
    deque(moves.observe_decision(decide(State(), situation, NOW), situation, NOW), maxlen=0)
    moves.set_wave_capacity(WaveCapacity(0, (), {}))
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
        if family.name.startswith("situate_spot_")
    }
    assert set(re.findall(r"`(situate_spot_\w+)", METRICS)) == shown


def test_the_events_are_those_that_are_recorded() -> None:
    code = "".join(path.read_text() for path in (ROOT / "src" / "situate" / "spot").rglob("*.py"))
    events = PAGE[PAGE.index("Events on the workload") :].partition("\n\n")[0]
    for reason in re.findall(r"`(\w+)`", events):
        assert f'"{reason}"' in code or f'"{reason.removeprefix("Pod")}"' in code, reason


def test_every_word_for_what_keeps_a_pod_from_being_moved_is_explained() -> None:
    table = SETTINGS[SETTINGS.index("## Words of BLOCKED") : SETTINGS.index("## Limits")]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(BlockReason)


def test_it_is_taken_away_by_a_label_that_spares_the_namespace() -> None:
    assert f"kubectl delete --ignore-not-found -l app.kubernetes.io/name={NAME} -f -" in TUTORIAL


@pytest.mark.rule("spot:B47")
def test_its_prices_can_be_read() -> None:
    (block,) = re.findall(r"```yaml\n(date:.*?)```", PRICES, re.DOTALL)
    prices, mistakes = parse_prices(block, "the page")
    assert mistakes == ()
    price = prices.price("m5.large", "us-east-1b")
    assert price is not None
    assert price.spot == 0.041


@pytest.mark.rule("spot:B48")
def test_the_chart_names_policies_and_their_cost() -> None:
    chart = CHOOSING[CHOOSING.index("## Choose a policy") : CHOOSING.index("## Set the policy")]
    for said in ("2", "30%", "base=2,weight=1:3", "all-on-demand", "all-spot", "majority"):
        assert said in chart
        parse_policy(said)
    shares = {
        "0.44": (parse_policy("2"), 10, False),
        "0.58": (parse_policy("base=2,weight=1:3"), 10, False),
        "0.77": (on_demand_policy.Default(), 3, True),
        "0.72": (on_demand_policy.Default(), 5, True),
        "0.30": (on_demand_policy.Default(), 10, False),
    }
    for text, (policy, replicas, stateful) in shares.items():
        found = cost_share(replicas, on_demand_target(policy, replicas, stateful=stateful), DEFAULT_DISCOUNT)
        assert f"{found:.2f}" == text
        assert text in chart


@pytest.mark.rule("spot:B48", "spot:S18", "spot:S34")
def test_the_notes_slips_are_read_as_they_are_meant() -> None:
    assert "maxSkew: 6" in CHOOSING
    (_, spread, _) = compare_methods(parse_policy("2"), 10, stateful=False)
    assert "maxSkew 6" in spread.remark
    assert "47 of 99" in CHOOSING
    rules = (DOCS / "spec" / "spot.md").read_text(encoding="utf-8")
    assert '`相差6` ("differ by 6") in the spread example means 2' in rules
    assert '"require-in-on-spot" means spot' in rules
    for name in on_demand_policy.STRATEGIES:
        assert f"`{name}`" in SETTINGS
    assert spread_on_demand(99, 6) == 47
    assert on_demand_policy.STRATEGIES["all-in-spot"] == on_demand_policy.AllSpot()
    assert on_demand_target(on_demand_policy.AllSpot(), 10, stateful=True) == 0


def commands_of(page: str) -> str:
    """The commands of its console blocks, each with the lines that continue it."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", page, re.DOTALL))
    return "".join(f"{each}\n" for each in re.findall(r"^\$ ((?:.*\\\n)*.*)", blocks, re.MULTILINE))


def counts_of(text: str) -> list[tuple[str, ...]]:
    """Of each line of `situate spot status` on a workload: its name and the numbers that say where its Pods are."""
    rows = [line.split() for line in text.splitlines() if line.startswith("Deployment default/web ")]
    return [(row[1], *row[3:9]) for row in rows if len(row) > 9 and row[3].isdigit()]


@pytest.mark.finding("N28")
@pytest.mark.slow
@pytest.mark.waits
@pytest.mark.verify
def test_the_tutorial_is_played_as_it_is_written(tmp_path: Path) -> None:
    """API servers ask the webhook by the Service of the manifests; only its port is another one."""
    (settings,) = re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)
    refused = "spot.situate.dev/on-demand=lots\n"
    script = commands_of(TUTORIAL)
    assert refused in script
    assert script.endswith("\nkill %1\n")
    script = script.replace(refused, f"{refused[:-1]} || true\n")  # it is refused, and so ends with 1
    port = ReservedPort()
    (tmp_path / "situate.yaml").write_text(f"{settings}  webhook: {{address: ':{port.number}'}}\n")
    surroundings = environment(tmp_path)
    surroundings["PATH"] = os.pathsep.join([str(KUBECTL.parent), surroundings["PATH"]])
    with (tmp_path / "told").open("w") as told:
        shell = subprocess.Popen(
            ["bash", "-c", f"set -e; trap 'kill %1 || true; wait' EXIT\n{script}"],
            cwd=tmp_path,
            env=surroundings,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )
        try:
            shell.wait(timeout=240)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGTERM)
                shell.wait(timeout=60)
            port.release()
    output = (tmp_path / "told").read_text()
    assert shell.returncode == 0, output
    assert counts_of(output) == counts_of(TUTORIAL), output
    assert len(counts_of(output)) == 4
    for said in ("PodEvicted", "PodReleased", "PodDeleted", ": to-on-demand", ": evacuate", ": replaced", "doomed"):
        assert said in TUTORIAL
        assert said in output
    (denied,) = re.findall(r"^The deployments .* denied request: .*", TUTORIAL, re.MULTILINE)
    assert denied in output

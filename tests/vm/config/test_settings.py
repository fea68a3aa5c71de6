"""The section `vm:`, and the reference's own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from situate.cli.input.configuration import load_configuration, vm_settings
from situate.objects.settings.section import parse_section
from situate.runtime.configuration.file import BadConfiguration
from situate.vm.config.neon_settings import read_neon_configuration
from situate.vm.config.settings import CostWeights, Deadlines, MigrationLimits, PermitSettings, Scoring, VmSettings
from situate.vm.model.policy import Rules

SHIPPED = {
    "watermark": 0.9,
    "schedulerName": "autoscale-scheduler",
    "reconcileWorkers": 16,
    "logSuccessiveFailuresThreshold": 10,
    "startupEventHandlingTimeoutSeconds": 15,
    "patchRetryWaitSeconds": 1,
    "k8sCRUDTimeoutSeconds": 1,
}


def test_defaults_are_those_of_the_rules() -> None:
    assert Rules.of(VmSettings()) == Rules()


def test_everything_can_be_set() -> None:
    section = {
        "schedulerName": "ours",
        "growPod": "never",
        "watermark": 0.8,
        "watermarks": {"n1": 0.7},
        "classWatermarks": {"m5.large": 0.6},
        "classLabel": "class",
        "resources": ["hugepages-2Mi"],
        "ignoredNamespaces": ["placeholders"],
        "targetsFirst": True,
        "scoring": {"scorePeak": 0.5, "randomize": False},
        "costs": {"load": 3, "expectedDowntime": "1s", "dirtyRate": "10Mi", "postCopy": True},
        "calm": {"coolDown": "5m", "movesInCluster": 7, "link": "10Gi"},
        "deadlines": {"unbound": "20s", "claim": 0},
        "permits": {"lifetime": "2m", "address": "127.0.0.1:1", "certificate": "c.pem", "key": "k.pem"},
        "demandAfter": "1s",
        "overtakes": 1,
        "maxBandwidth": "512Mi",
        "cancelCopying": False,
        "evict": True,
        "chainDepth": 1,
        "consolidate": True,
    }
    settings, mistakes = parse_section(section, VmSettings, "vm")
    assert mistakes == ()
    assert settings is not None
    assert Rules.of(settings) == Rules(
        scheduler_name="ours",
        grow_pod="never",
        watermark=0.8,
        watermarks={"n1": 0.7},
        class_watermarks={"m5.large": 0.6},
        class_label="class",
        further_resources=("hugepages-2Mi",),
        ignored_namespaces=("placeholders",),
        targets_first=True,
        scoring=Scoring(score_peak=0.5, randomize=False),
        costs=CostWeights(load=3.0, expected_downtime_s=1.0, dirty_rate="10Mi", post_copy=True),
        calm=MigrationLimits(cool_down_s=300.0, moves_in_cluster=7, link="10Gi"),
        deadlines=Deadlines(unbound_s=20.0, claim_s=0.0),
        permits=PermitSettings(lifetime_s=120.0, address="127.0.0.1:1", certificate="c.pem", key="k.pem"),
        demand_after_s=1.0,
        overtakes=1,
        max_bandwidth="512Mi",
        cancel_copying=False,
        evict=True,
        chain_depth=1,
        consolidate=True,
    )


@pytest.mark.rule("vm:B47")
def test_what_behaves_as_the_reference_resizes_no_pod() -> None:
    assert not VmSettings(compat=True).grows_pods


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"watermark": 0}, "vm.watermark: found 0, allowed: a number more than 0 and of at most 1"),
        ({"watermarks": {"n1": 1.1}}, "vm.watermarks.n1: found 1.1"),
        ({"waterMark": 0.9}, "did you mean watermark?"),
        ({"maxBandwidth": "0Gi"}, 'vm.maxBandwidth: found "0Gi", allowed: a number of bytes above 0, such as "1Gi"'),
        ({"calm": {"coolDown": "7h"}}, "vm.calm.longestCoolDown: found 21600.0, allowed: at least coolDown"),
        (
            {"permits": {"key": "k.pem"}},
            "vm.permits.certificate: missing, allowed: the name of a file; set it together with key",
        ),
        ({"permits": {"address": ":70000"}}, "a port of at most 65535"),
        (
            {"permits": {"callers": "any"}},
            'vm.permits.callers: found "any", allowed: token; the other values need compat',
        ),
        ({"resources": ["cpu"]}, "each resource once; cpu and memory are always included"),
        (
            {"configuration": "c.json", "watermark": 0.5},
            "vm.watermark: found 0.5, allowed: no value, because the file in configuration",
        ),
        ({"chainDepth": 3}, "vm.chainDepth: found 3"),
        ({"overtakes": 0}, "vm.overtakes: found 0"),
    ],
)
def test_mistakes_are_named(section: dict[str, Any], said: str) -> None:
    settings, mistakes = parse_section(section, VmSettings, "vm")
    assert settings is None
    assert said in "\n".join(map(str, mistakes))


@pytest.mark.rule("vm:C31")
@pytest.mark.parametrize("missing", SHIPPED)
def test_the_reference_s_file_has_fields_that_must_be_set(missing: str) -> None:
    document = {key: value for key, value in SHIPPED.items() if key != missing}
    read, (mistake,) = read_neon_configuration(json.dumps(document), VmSettings())
    assert read is None
    assert mistake.path == missing


@pytest.mark.rule("vm:C31")
def test_what_the_reference_s_file_does_not_say_is_zero() -> None:
    read, mistakes = read_neon_configuration(json.dumps(SHIPPED), VmSettings(compat=True))
    assert mistakes == ()
    assert read is not None
    assert read.scoring == Scoring(min_usage_score=0.0, max_usage_score=0.0, score_peak=0.0, randomize=False)


@pytest.mark.rule("vm:C31")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "allowed: JSON"),
        ("[]", "allowed: a mapping"),
        (json.dumps({**SHIPPED, "notAField": 1}), "notAField"),
        (json.dumps({**SHIPPED, "scoring": {"peak": 1}}), "scoring.peak"),
        (json.dumps({**SHIPPED, "schedulerName": ""}), "schedulerName"),
        (json.dumps({**SHIPPED, "reconcileWorkers": 0}), "reconcileWorkers"),
        (json.dumps({**SHIPPED, "ignoredNamespaces": [""]}), "ignoredNamespaces[0]"),
    ],
)
def test_mistakes_in_the_reference_s_file_are_named(text: str, said: str) -> None:
    read, mistakes = read_neon_configuration(text, VmSettings())
    assert read is None
    assert said in str(mistakes[0])


@pytest.mark.rule("vm:C31")
def test_the_file_beside_ours_is_read(tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(
        "apiVersion: situate.dev/v1alpha1\nkind: Situate\nvm: {compat: true, configuration: neon.json, evict: true}\n"
    )
    with pytest.raises(
        BadConfiguration, match=r"vm\.configuration neon\.json: .*found .*neon\.json.*, allowed: a readable file"
    ):
        load_configuration(file)
    (tmp_path / "neon.json").write_text(json.dumps({**SHIPPED, "watermark": 2}))
    with pytest.raises(BadConfiguration, match=r"vm\.configuration neon\.json: watermark: found 2"):
        load_configuration(file)
    (tmp_path / "neon.json").write_text(json.dumps({**SHIPPED, "watermark": 0.7}))
    settings = vm_settings(load_configuration(file))
    assert settings is not None
    rules = settings
    assert (rules.watermark, rules.scheduler_name, rules.compat, rules.evict) == (
        0.7,
        "autoscale-scheduler",
        True,
        True,
    )

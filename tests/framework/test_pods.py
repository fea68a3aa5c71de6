"""What tells templates apart (framework.md section 12): two pods of one template are filtered and scored alike."""

from __future__ import annotations

from typing import Any

import pytest

from situate.framework.pods import PodTemplate
from situate.objects.meta import ObjectMeta
from situate.objects.pods import Container, Pod, PodSpec, Toleration
from tests.framework.pods import READER


def template(name: str, **spec: Any) -> PodTemplate:
    made = Pod(ObjectMeta(name=name, namespace="default", uid=name), PodSpec(containers=(Container(),), **spec))
    return READER.read(made).template


def test_pods_that_differ_in_their_names_share_a_template() -> None:
    assert template("a") is template("b")


@pytest.mark.parametrize(
    "spec",
    [
        {"host_network": True},
        {"host_users": False},
        {"tolerations": (Toleration(key="gpu"),)},
        {"node_selector": {"zone": "a"}},
        {"scheduler_name": "other"},
        {"preemption_policy": "Never"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_a_plugin_reads_makes_another_template_of_another_kin(spec: dict[str, Any]) -> None:
    usual, other = template("a"), template("b", **spec)
    assert other is not usual
    assert other.kin != usual.kin

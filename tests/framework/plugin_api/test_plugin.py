from __future__ import annotations

from typing import Any

import pytest

from situate.framework.plugin_api import plugin
from situate.framework.plugin_api.plugin import implements

POINTS = [each for name, each in vars(plugin).items() if name.endswith(("Plugin", "Extensions")) and name != "Plugin"]


class Bare:
    name = "Bare"


class Filters(Bare):
    def filter(self, *_: Any) -> None: ...


class Inherits(Filters):
    def pre_bind(self, *_: Any) -> None: ...


class SwitchesOff(Inherits):
    filter = None  # type: ignore[assignment]  # as Python has it for what a subclass does not support


class ForwardsAll:
    def __getattr__(self, name: str) -> Any:
        return getattr(Inherits(), name)


@pytest.mark.parametrize(
    "made", [Bare(), Filters(), Inherits(), SwitchesOff(), ForwardsAll()], ids=lambda it: type(it).__name__
)
def test_a_plugin_implements_what_isinstance_says(made: object) -> None:
    found = {point.__name__: implements(made, point) for point in POINTS}
    assert found == {point.__name__: isinstance(made, point) for point in POINTS}
    assert len(found) > 15

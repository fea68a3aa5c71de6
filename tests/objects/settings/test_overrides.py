from __future__ import annotations

import pytest

from situate.objects.settings.overrides import Override, override_from_text, with_overrides, with_sources
from situate.objects.settings.section import Mistake

DATA = {"vpod": [{"podCapacity": 1}, {"podCapacity": 2}], "log": {"level": "info"}}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("log.level", DATA | {"log": {"level": 9}}),
        ("log.format", DATA | {"log": {"level": "info", "format": 9}}),
        ("health.address", DATA | {"health": {"address": 9}}),
        ("vpod[1].podCapacity", DATA | {"vpod": [{"podCapacity": 1}, {"podCapacity": 9}]}),
        ("vpod[*].podCapacity", DATA | {"vpod": [{"podCapacity": 9}, {"podCapacity": 9}]}),
        ("spot[*].x", DATA),
    ],
)
def test_puts_a_value_at_its_path_in_a_copy(path: str, want: object) -> None:
    before = repr(DATA)
    assert with_overrides(DATA, [Override(path, 9, "test")]) == (want, ())
    assert repr(DATA) == before


def test_the_later_override_wins() -> None:
    data, _ = with_overrides({}, [Override("a", 1, "environment"), Override("a", 2, "flag")])
    assert data == {"a": 2}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("vpod[2].x", "found entry 2, allowed: a number below 2, the length of the list"),
        ("log.level.deeper", 'found "info", allowed: a mapping, to set its key deeper'),
        ("log[0].x", 'found {"level": "info"}, allowed: a list, to override its entry'),
        (
            "vpod.podCapacity",
            'found [{"podCapacity": 1}, {"podCapacity": 2}], allowed: a mapping, to set its key podCapacity; '
            "name an entry by its number, such as [0].podCapacity",
        ),
    ],
)
def test_what_has_no_such_place_is_a_mistake_and_not_ignored(path: str, told: str) -> None:
    overrides = [Override(path, 1, "flag --set")]
    data, mistakes = with_overrides(DATA, overrides)
    assert data == DATA
    assert [str(each) for each in mistakes] == [f"{path}: {told}"]
    (traced,) = with_sources(mistakes, overrides)
    assert str(traced).count("the value comes from flag --set") == 1


@pytest.mark.parametrize("path", ["", "a..b", "a[x]", "a[-1]", "[0]", "a b"])
def test_a_path_that_cannot_be_read_is_a_mistake(path: str) -> None:
    override, (mistake,) = override_from_text(path, "1", "flag --set")
    assert override is None
    assert mistake.path == "flag --set"


def test_values_are_read_as_yaml() -> None:
    for text, value in (("20", 20), ("100s", "100s"), ("[a, b]", ["a", "b"]), ("", ""), ("true", True)):
        override, _ = override_from_text("a", text, "x")
        assert override is not None
        assert override.value == value
    assert override_from_text("a", "[", "environment variable X")[1][0].path == "environment variable X"


def test_a_mistake_names_where_the_value_came_from() -> None:
    overrides = [Override("vpod[*].podCapacity", 0, "environment variable POD_CAPACITY")]
    wrong = (Mistake("vpod[1].podCapacity", "0", "more"), Mistake("vpod[1].podCapacityX", "0", "more", "b"))
    traced, other = with_sources(wrong, overrides)
    assert traced.hint == "the value comes from environment variable POD_CAPACITY"
    assert other.hint == "b"

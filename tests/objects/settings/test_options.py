"""Options from one table: what a text means for each kind of value, and where a mistake is said to be."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from situate.objects.settings.options import (
    BadOptions,
    Sources,
    options_of,
    read_mapping,
    read_options,
    require_options,
)
from situate.objects.settings.section import Duration


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(description="A name.", examples=["web"])]
    count: Annotated[int, Meta(ge=0, description="How many.")] = 1
    some_time: Annotated[Duration | None, Meta(description="How long.")] = None
    level: Annotated[Literal["off", "on"], Meta(description="A word that YAML would take for another.")] = "off"
    room: Annotated[Literal["unlimited"] | Annotated[float, Meta(ge=0)], Meta(description="How much.")] = "unlimited"
    switch: Annotated[bool, Meta(description="Whether.")] = False
    weights: Annotated[dict[str, float], Meta(description="By name.")] = msgspec.field(default_factory=dict)


def read(environment: dict[str, str] | None = None, file: object = None, **flags: object) -> Settings:
    return require_options(Settings, Sources({"name": "web", **flags}, environment or {}, file))


@pytest.mark.parametrize(
    ("flag", "text", "want"),
    [
        pytest.param("count", "7", 7, id="a whole number"),
        pytest.param("name", "007", "007", id="text stays text"),
        pytest.param("some_time", "90", 90.0, id="seconds"),
        pytest.param("some_time", "1m30s", 90.0, id="a duration"),
        pytest.param("some_time", "none", None, id="nothing"),
        pytest.param("level", "off", "off", id="no boolean"),
        pytest.param("room", "2.5", 2.5, id="a number or a word"),
        pytest.param("room", "unlimited", "unlimited", id="the word"),
        pytest.param("switch", "true", True, id="yes"),
        pytest.param("weights", ["a=1,b=2", "c=3"], {"a": 1.0, "b": 2.0, "c": 3.0}, id="pairs"),
    ],
)
def test_what_a_text_means(flag: str, text: object, want: object) -> None:
    made = require_options(Settings, Sources({"name": "web", flag: text}, {}))
    assert getattr(made, flag) == want


def test_a_flag_takes_back_what_a_file_says() -> None:
    assert read(file={"someTime": "5s"}, some_time="none").some_time is None
    assert read({"SITUATE_COUNT": "3"}, {"count": 2}).count == 3
    assert read({"SITUATE_COUNT": ""}, {"count": 2}).count == 2


@pytest.mark.parametrize("key", ["some_time", "someTime", "some-time"])
def test_a_key_may_be_written_as_in_python_in_files_and_on_the_command_line(key: str) -> None:
    assert read_mapping(Settings, {"name": "web", key: 5}).some_time == 5.0


def test_a_key_is_given_once() -> None:
    with pytest.raises(BadOptions, match="some_time: found 6, allowed: someTime once"):
        read_mapping(Settings, {"name": "web", "someTime": 5, "some_time": 6})


def test_mistakes_are_where_they_were_made() -> None:
    sources = Sources({"count": "-1"}, {"SITUATE_ROOM": "much"}, {"level": "loud"}, "settings")
    _, mistakes = read_options(Settings, sources)
    assert [each.path for each in mistakes] == ["settings.level", "--count", "SITUATE_ROOM", "--name"]


def test_a_prefix_is_part_of_flag_and_variable() -> None:
    option = next(each for each in options_of(Settings, "my_") if each.field == "some_time")
    assert (option.flag, option.variable, option.dest) == ("--my-some-time", "SITUATE_MY_SOME_TIME", "my_some_time")
    with pytest.raises(ValueError, match="prefix: found"):
        options_of(Settings, "--my")


def test_what_is_no_mapping_is_refused_whole() -> None:
    with pytest.raises(BadOptions, match="a mapping of options"):
        read_mapping(Settings, ["name"])  # type: ignore[arg-type]  # as a file may hold it
    with pytest.raises(BadOptions, match="K=V"):
        read(weights=["a"])

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from situate.objects.settings.section import Mistake
from situate.runtime.configuration.file import BadConfiguration, Configuration, parse_configuration
from situate.runtime.configuration.reload import ConfigurationFile, NamedFiles, ReloadAccepted, ReloadRejected, follow
from situate.testing.virtual_time.processes import World

HEAD = "apiVersion: situate.dev/v1alpha1\nkind: Situate\n"


def opened(path: Path) -> ConfigurationFile:
    return ConfigurationFile(path, lambda text: parse_configuration(text, ()))


def test_a_change_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "situate.yaml"
    path.write_text(HEAD)
    file = opened(path)
    assert file.load().runtime.workers == 16
    assert file.poll() is None
    path.write_text(HEAD + "workers: 5\n")
    accepted = file.poll()
    assert isinstance(accepted, ReloadAccepted)
    assert accepted.configuration.runtime.workers == 5
    assert file.poll() is None


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.write_text(HEAD + "workers: 0\n"), "workers: found 0, allowed: an integer of at least 1"),
        (lambda path: path.unlink(), "No such file or directory, allowed: a file that can be read"),
        (lambda path: path.write_bytes(b"a: \xff"), "found byte 0xff at 3, allowed: text in UTF-8"),
        (
            lambda path: path.write_bytes(b" " * (4 * 2**20 + 1)),
            "found more than 4194304 bytes, allowed: at most 4194304 bytes",
        ),
    ],
)
def test_a_bad_change_is_rejected_until_it_is_mended(
    tmp_path: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    path = tmp_path / "situate.yaml"
    path.write_text(HEAD)
    file = opened(path)
    file.load()
    spoil(path)
    rejected = file.poll()
    assert isinstance(rejected, ReloadRejected)
    assert sentence in str(rejected.problem)
    assert str(path) in str(rejected.problem)
    assert file.rejected is rejected.problem
    assert file.poll() is None
    path.write_text(HEAD)
    assert isinstance(file.poll(), ReloadAccepted)
    assert file.rejected is None


def test_a_bad_file_at_the_start_raises(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="No such file or directory"):
        opened(tmp_path / "situate.yaml").load()


def test_follows_the_swap_of_a_symbolic_link(tmp_path: Path) -> None:
    for name, workers in (("one", 5), ("two", 6), ("three", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "situate.yaml").write_text(f"{HEAD}workers: {workers}\n")
    (tmp_path / "data").symlink_to(tmp_path / "one")
    file = opened(tmp_path / "data" / "situate.yaml")
    file.load()
    seen: list[object] = []

    def accepted(configuration: Configuration) -> None:
        seen.append(configuration.runtime.workers)

    def rejected(problem: BadConfiguration) -> None:
        seen.append(len(problem.mistakes))

    async def main() -> None:
        task = asyncio.create_task(follow(file, accepted, rejected))
        for name in ("two", "three"):
            await asyncio.sleep(12)
            (tmp_path / "next").symlink_to(tmp_path / name)
            (tmp_path / "next").replace(tmp_path / "data")
        await asyncio.sleep(12)
        task.cancel()

    with World() as world:
        world.run(main)
    assert seen == [6, 1]


def naming(path: Path, other: Path) -> ConfigurationFile:
    """A configuration that names another file, which must not say `bad`."""
    named = NamedFiles()

    def parse(text: str) -> tuple[Configuration | None, tuple[Mistake, ...]]:
        configuration, mistakes = parse_configuration(text, ())
        if configuration is None:
            return None, mistakes
        try:
            found = named.text(other)
        except OSError as problem:
            found = f"bad: {problem.strerror}"
        return (None, (Mistake("other", found, "good"),)) if found.startswith("bad") else (configuration, ())

    return ConfigurationFile(path, parse, named)


@pytest.mark.finding("N2")
@pytest.mark.parametrize("spoil", [lambda path: path.write_text("bad"), lambda path: path.unlink()])
def test_a_file_that_the_configuration_names_is_followed_as_well(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    path, other = tmp_path / "situate.yaml", tmp_path / "other.yaml"
    path.write_text(HEAD)
    other.write_text("good")
    file = naming(path, other)
    file.load()
    assert file.poll() is None
    other.write_text("good, too")
    assert isinstance(file.poll(), ReloadAccepted)
    assert file.named.last_text(other) == "good, too"
    assert file.poll() is None
    spoil(other)
    assert isinstance(file.poll(), ReloadRejected)
    assert file.poll() is None, "each change is told once"
    other.write_text("good again")
    assert isinstance(file.poll(), ReloadAccepted)


def test_a_file_that_is_named_no_more_is_followed_no_more(tmp_path: Path) -> None:
    path, other = tmp_path / "situate.yaml", tmp_path / "other.yaml"
    path.write_text(HEAD)
    other.write_text("good")
    file = naming(path, other)
    file.load()
    path.write_text(HEAD + "workers: 0\n")
    assert isinstance(file.poll(), ReloadRejected)
    other.write_text("bad")
    assert file.poll() is None
    path.write_text(HEAD)
    assert isinstance(file.poll(), ReloadRejected), "it names the other one again"

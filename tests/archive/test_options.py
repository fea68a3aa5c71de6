"""Options of archives: where, when, how long, and that no secret is a flag's value or is ever shown."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from situate.archive import ArchiveOptions, BadOptions, add_archive_options
from situate.archive.operations.retention import Retention
from situate.archive.stores.folder.archiver import FilesystemArchiver
from situate.sharding.model.names import FINALIZER

pytestmark = pytest.mark.rule("sharding:K15")

SECRET = "postgresql://writer:hunter2@db.example/archive"


def options(*arguments: str, environment: Mapping[str, str] | None = None, file: object = None) -> ArchiveOptions:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_archive_options(parser)
    return ArchiveOptions.from_namespace(parser.parse_args(arguments), file=file, environment=environment or {})


def told(*arguments: str, **given: object) -> str:
    with pytest.raises(BadOptions) as bad:
        options(*arguments, **given)  # type: ignore[arg-type]  # as `options` takes them
    return str(bad.value)


def test_defaults_are_those_of_the_reference() -> None:
    made = options()
    assert (made.archive_url, made.archive_ttl, made.archive_keep_last, made.archive_retention) == (None,) * 4
    assert (made.archive_concurrency, made.archive_on_unavailable) == (8, "wait")
    assert made.finalizer == FINALIZER
    assert made.open({}) is None


def test_a_password_is_refused_as_a_flag_and_never_shown() -> None:
    said = told("--archive-url", SECRET)
    assert said.startswith("--archive-url: found a URL with a password")
    assert "--archive-url-file" in said
    assert "SITUATE_ARCHIVE_URL" in said
    made = options(environment={"SITUATE_ARCHIVE_URL": SECRET})
    assert made.url() == SECRET
    for text in (said, repr(made), str(made), told(environment={"SITUATE_ARCHIVE_URL": f"x{SECRET}"})):
        assert "hunter2" not in text
    assert "hunter2" not in told(file={"url": [SECRET]})


@pytest.mark.parametrize("password", ["hun/ter2", "hun?ter2", "hun@ter2", "hun#ter2"])
def test_a_password_is_one_whatever_is_in_it(password: str) -> None:
    """SQLAlchemy takes all of these."""
    assert "a URL with a password" in told("--archive-url", f"postgresql://writer:{password}@db.example/archive")


def test_a_url_in_the_place_of_the_file_is_refused_and_not_shown() -> None:
    for said in (
        told("--archive-url-file", SECRET),
        told(environment={"SITUATE_ARCHIVE_URL_FILE": SECRET}),
        told(file={"urlFile": SECRET}),
        told(file={"uri": SECRET}),
    ):
        assert "hunter2" not in said
        assert "allowed: the path of a file that holds the URL" in said or "did you mean url?" in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://writer@db.example/archive",
        "file:///reports:of@2026",
        "s3://b/p?endpoint=http://127.0.0.1:9000",
        "postgresql://db.example:5432/archive",
    ],
)
def test_a_url_without_a_secret_may_be_a_flag(url: str) -> None:
    assert options("--archive-url", url).url() == url


def test_a_file_holds_the_url(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"file://{tmp_path}/archive\n")
    made = options("--archive-url-file", str(file))
    assert isinstance(made.open({}), FilesystemArchiver)
    file.write_text("no url at all: hunter2")
    with pytest.raises(BadOptions, match="urlFile: found a text that is not shown"):
        made.open({})
    with pytest.raises(BadOptions, match="a readable file"):
        options("--archive-url-file", str(tmp_path / "none")).open({})
    assert "set only one of them" in told("--archive-url-file", "f", "--archive-url", "file:///a")


def test_ttl_and_retention_by_outcome() -> None:
    made = options("--archive-ttl", "1h", "--archive-ttl-failed", "24h", "--archive-retention", "successful=72h")
    assert (made.ttl_successful, made.ttl_failed) == (3600.0, 86400.0)
    assert made.retention == Retention(successful=timedelta(hours=72))
    hours = timedelta(hours=5)
    assert options("--archive-retention", "5h").retention == Retention(hours, hours, hours)
    assert options(environment={"SITUATE_ARCHIVE_TTL": "none"}, file={"ttl": "5s"}).archive_ttl is None


def test_files_name_them_below_archive() -> None:
    made = ArchiveOptions.from_mapping({"onUnavailable": "release", "archive_concurrency": 2, "archiveKeepLast": 1})
    assert (made.archive_on_unavailable, made.archive_concurrency, made.archive_keep_last) == ("release", 2, 1)
    with pytest.raises(BadOptions) as bad:
        ArchiveOptions.from_mapping(
            {"onUnavailable": "drop", "finalizer": "x", "url": "ftp://a"}, "sharding[0].archive"
        )
    assert [line.split(": ")[0] for line in str(bad.value).splitlines()] == [
        "sharding[0].archive.onUnavailable",
        "sharding[0].archive.url",
        "sharding[0].archive.finalizer",
    ]

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from situate.archive.open_archive import BadArchiveUrl, open_archiver
from situate.archive.protocol import ArchiveUnavailable
from tests.archive.reports import archived

pytestmark = pytest.mark.rule("sharding:K16")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("file:///var/records", "FilesystemArchiver('/var/records')"),
        ("file://localhost/var/a%20b", "FilesystemArchiver('/var/a b')"),
        ("sqlite:////var/records.db", "SqlArchiver('the archive in sqlite:////var/records.db')"),
        ("postgresql://me:hunter2@db:5433/records", "SqlArchiver('the archive in postgresql://db:5433/records')"),
        ("postgres://me:hunter2@db/records?password=hunter2", "SqlArchiver('the archive in postgresql://db/records')"),
    ],
)
async def test_a_url_opens_its_kind_of_archive_and_its_secrets_stay_unsaid(url: str, shown: str) -> None:
    archiver = open_archiver(url, {})
    assert repr(archiver) == shown
    await archiver.close()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("", "found no scheme"),
        ("/var/records", "found no scheme"),
        ("hunter2", "found no scheme"),
        ("ftp://me:hunter2@host/x", "the scheme 'ftp'"),
        ("file://server/share", "a host or a question mark"),
        ("file:///var?password=hunter2", "a host or a question mark"),
        ("file:records", "no absolute path"),
        ("file://", "no absolute path"),
        ("file:///a%00hunter2", "no absolute path"),
        ("file:///a%ffhunter2", ""),
        ("file://[hunter2", ""),
        ("sqlite://", "no database"),
        ("sqlite:///:memory:", "no database"),
        ("postgresql://me:hunter2@host", "no database"),
        ("postgresql://me:hunter2@host:port/records", ""),
        ("mongodb://me:hunter2@host:port/records", ""),
        ("mongodb://me:hun@ter2@[/records", ""),
        ("s3://", ""),
        ("s3://me:hunter2@bucket/prefix", ""),
    ],
)
def test_a_url_that_opens_nothing_is_refused_and_never_quoted(url: str, found: str) -> None:
    with pytest.raises(BadArchiveUrl) as caught:
        open_archiver(url, {})
    message = str(caught.value)
    assert message.startswith("archive URL: ")
    assert found in message
    assert "allowed: " in message
    for told in (message, repr(caught.value), repr(caught.value.__cause__)):
        assert "hunter2" not in told
        assert "ter2" not in told


MISSING = """
import sys
from situate.archive.open_archive import ExtraMissing, open_archiver
for package, url in {tried!r}:
    sys.modules[package] = None  # importing it fails, as if it was not installed
    try:
        open_archiver(url, {{}})
    except ExtraMissing as error:
        print(error)
    del sys.modules[package]
"""


def test_an_extra_that_is_not_installed_is_one_sentence_with_the_command() -> None:
    tried = {
        ("sqlalchemy", "sqlite:///x.db"): "sql",
        ("sqlalchemy", "postgresql://me:hunter2@host/records"): "sql",
        ("aiosqlite", "sqlite:///x.db"): "sql",
        ("psycopg", "postgresql://me:hunter2@host/records"): "sql",
        ("obstore", "s3://bucket"): "s3",
        ("pymongo", "mongodb://me:hunter2@host/records"): "mongo",
    }
    script = MISSING.format(tried=list(tried))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert len(lines) == len(tried), (lines, done.stderr)
    for line, ((package, _), extra) in zip(lines, tried.items(), strict=True):
        assert f" need {package}" in line
        assert line.endswith(f", which is not installed; run: pip install 'situate[{extra}]'")
    assert "hunter2" not in done.stdout


def test_opening_touches_nothing(tmp_path: Path) -> None:
    async def use() -> None:
        for url in (f"file://{tmp_path}/nowhere", f"sqlite:///{tmp_path}/nowhere/a.db"):
            archiver = open_archiver(url, {})
            with pytest.raises(ArchiveUnavailable):
                await archiver.put(archived())
            await archiver.close()

    asyncio.run(use())
    assert list(tmp_path.iterdir()) == []

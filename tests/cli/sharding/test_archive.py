"""`situate sharding archive get|search|restore|prune|migrate|verify`: what they print, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.archive.open_archive import open_archiver
from situate.archive.records.record import Record
from situate.cli.main import app
from situate.cluster.storage.effects import ADMIN
from situate.embedded.embedded_server import Settings
from situate.sharding.model.names import EPOCH, EXECUTOR_SELECTOR, FINALIZER, RESTORING
from situate.testing.sharding.world.reports import CRDS, GROUP, definition
from tests.archive.reports import archived, report
from tests.archive.store_fixtures import Filesystem
from tests.contract.servers import EmbeddedThread
from tests.controlplane.asking import ask

pytestmark = pytest.mark.rule("sharding:K11")
KIND = f"Report.{GROUP}"
SECRET = "hunter2"


class Archive:
    """A folder of records, and the verbs for it."""

    def __init__(self, folder: Path, *records: Record) -> None:
        folder.mkdir(exist_ok=True)
        self.store = Filesystem(folder)
        self.url = f"file://{self.store.root}"
        asyncio.run(self._put(records))

    async def _put(self, records: tuple[Record, ...]) -> None:
        archiver = open_archiver(self.url, {})
        for record in records:
            await archiver.put(record)
        await archiver.close()

    def run(self, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
        """What is printed, and what is complained about."""
        variables = {"SITUATE_ARCHIVE_URL": self.url} | environment
        result = CliRunner().invoke(app, ["sharding", "archive", *arguments], env=variables)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        assert SECRET not in result.output
        return result.stdout, result.stderr

    def data(self, *arguments: str, code: int = 0) -> Any:
        """What is printed as JSON; YAML says the same."""
        printed, _ = self.run(*arguments, "-o", "json", code=code)
        told = json.loads(printed)
        if "prune" not in arguments and "migrate" not in arguments:
            assert yaml.safe_load(self.run(*arguments, "-o", "yaml", code=code)[0]) == told
        return told


def done(name: str, uid: str, at_s: float = 0, **metadata: Any) -> Record:
    content = report(name, uid=uid, labels={"team": "red" if at_s < 5 else "blue"}, assignedTo="ex-1", text="written")
    content["metadata"] |= metadata
    content["status"] = {"completedAt": "2026-01-31T11:59:00Z", "successful": True, "pages": 7}
    return archived(content, at_s=at_s, reason="Printed")


RECORDS = (done("nightly", "u1"), done("nightly", "u2", 2), done("weekly", "u3", 9))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "a", *RECORDS)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """For tests that only read."""
    return Archive(tmp_path_factory.mktemp("library"), *RECORDS)


def test_one_object_is_found_by_name_or_by_uid(library: Archive) -> None:
    assert library.data("get", KIND, "ns1/nightly")["metadata"]["uid"] == "u2"
    assert library.data("get", KIND, "--uid", "u1") == done("nightly", "u1").object
    record = library.data("get", KIND, "--uid", "u1", "--record")
    assert (record["kind"], record["subject"]["uid"], record["object"]["metadata"]["uid"]) == ("Record", "u1", "u1")
    table, _ = library.run("get", KIND, "ns1/weekly")
    assert [line.split() for line in table.splitlines()][1][:4] == ["ns1", "weekly", "succeeded", "Printed"]
    _, told = library.run("get", KIND, "ns1/nobody", code=1)
    assert told == f"situate: {KIND} ns1/nobody is not in the archive\n"


@pytest.mark.parametrize(
    ("arguments", "uids"),
    [
        ((), ["u3", "u2", "u1"]),
        (("--kind", KIND, "-l", "team in (red)"), ["u2", "u1"]),
        (("--kind", "Other."), []),
        (("-n", "ns2"), []),
        (("--name", "weekly", "--name", "daily"), ["u3"]),
        (("--prefix", "n", "--suffix", "ly", "--substring", "ght"), ["u2", "u1"]),
        (("--successful", "--reason", "Printed", "--uid", "u1"), ["u1"]),
        (("--failed",), []),
        (("--archived-since", "2026-01-31T12:00:01Z", "--archived-before", "2026-01-31T12:00:09Z"), ["u2"]),
        (("--completed-before", "2026-01-31T12:00:00Z", "--completed-since", "300000h"), ["u3", "u2", "u1"]),
    ],
)
def test_what_is_archived_is_found_by_conditions(library: Archive, arguments: tuple[str, ...], uids: list[str]) -> None:
    assert [each["subject"]["uid"] for each in library.data("search", *arguments)["records"]] == uids


def test_a_long_list_comes_in_pages(library: Archive) -> None:
    first = library.data("search", "--limit", "2")
    second = library.data("search", "--limit", "2", "--continue", first["continue"], "--with-objects")
    assert [each["subject"]["uid"] for each in (*first["records"], *second["records"])] == ["u3", "u2", "u1"]
    assert second["continue"] == ""
    assert "object" not in first["records"][0]
    assert second["records"][0]["object"]["status"]["pages"] == 7
    printed, _ = library.run("search", "--limit", "1", "-o", "wide")
    assert printed.splitlines()[0].split()[0] == "KIND"
    assert printed.splitlines()[-1].startswith("next page: --continue ")
    assert library.run("search", "--name", "nobody")[0] == "no record matches\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("get", "Report/v1", "ns1/a"), "allowed: KIND.GROUP"),
        (
            ("search", "--kind", "Report"),
            "allowed: KIND.GROUP, such as Report.batch.example.com; for the core group of Kubernetes: Report.",
        ),
        (("get", KIND, "a/b/c"), "allowed: NAMESPACE/NAME"),
        (("get", KIND), "--uid"),
        (("search", "-l", "a>1"), "allowed: =, !="),
        (("search", "-l", "a=b=c"), "label selector"),
        (("search", "--archived-since", "yesterday"), "--archived-since: found 'yesterday'"),
        (("search", "--continue", "xyz"), "continue: found"),
        (("prune",), "--archive-retention"),
        (("prune", "--archive-retention", "-1h"), "-1h"),
        (("prune", "--archive-retention", "1h", "--audit-file", "/nowhere/at/all"), "--audit-file"),
        (("prune", "--archive-retention", "1h", "--audit-file", "/dev/full"), "--audit-file: /dev/full: No space left"),
        (("migrate", "--from-archive-url", "file:///nowhere"), "--to-archive-url"),
        (("verify", "--archive-url", f"postgresql://me:{SECRET}@host/db"), "--archive-url-file"),
        (("verify", "--archive-url", f"gopher://me:{SECRET}@host/db"), "allowed"),
        (("restore", KIND, "ns1/nightly", "--convert", "no.such:thing"), "--convert"),
        (("restore", KIND, "ns1/nightly", "--assigned-to-path", "metadata.name"), "assigned_to_path"),
        (("restore", KIND, "ns1/nightly", "--finalizer", "none"), "finalizer"),
        (("serve", "--resource", "reports"), "GROUP/VERSION/PLURAL"),
        (("serve", "--resource", "x.io/v1/reports"), "clients would send tokens in clear text"),
        (("serve", "--resource", "x.io/v1/reports", "--address", "8443x"), "HOST:PORT"),
        (("serve", "--resource", "x.io/v1/reports", "--tls-cert-file", "a.pem"), "must be given together"),
    ],
)
def test_what_cannot_be_used_is_named_in_a_sentence(library: Archive, arguments: tuple[str, ...], said: str) -> None:
    _, told = library.run(*arguments, code=2)
    assert said in told


def test_secrets_come_from_a_file_or_the_environment_and_are_never_shown(library: Archive, tmp_path: Path) -> None:
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/db?connect_timeout=1"
    file = tmp_path / "url"
    file.write_text(url + "\n")
    for arguments, environment in (
        ((), {"SITUATE_ARCHIVE_URL": url}),
        (("--archive-url-file", str(file)), {"SITUATE_ARCHIVE_URL": ""}),
    ):
        _, told = library.run("verify", *arguments, code=3, **environment)
        assert "situate:" in told
    _, told = library.run("verify", code=2, SITUATE_ARCHIVE_URL="")
    assert "no archive is configured" in told


def test_every_record_is_read_and_what_was_edited_is_named(archive: Archive) -> None:
    assert archive.data("verify") == {"whole": 3, "unreadable": []}
    asyncio.run(archive.store.edit(done("weekly", "u3", 9)))
    told = archive.data("verify", code=1)
    assert (told["whole"], [each["field"] for each in told["unreadable"]]) == (2, ["digest"])
    printed, _ = archive.run("verify", code=1)
    assert printed.startswith("2 records are intact, 1 are not\n")
    assert len(archive.data("search")["unreadable"]) == 1
    assert "cannot be used" in archive.run("search")[1]
    assert "cannot be used" in archive.run("get", KIND, "--uid", "u3", code=1)[1]


def test_records_whose_time_is_over_are_written_down_and_deleted(archive: Archive, tmp_path: Path) -> None:
    audit = tmp_path / "audit"
    kept = ("prune", "--archive-retention", "1h", "--prefix", "n", "--audit-file", str(audit))
    assert archive.data(*kept, "--dry-run")["deleted"] == 2
    assert archive.data("verify")["whole"] == 3
    assert archive.data(*kept) == {"dryRun": False, "deleted": 2, "lookedAt": 2, "unreadable": []}
    assert archive.data("verify")["whole"] == 1
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(each["action"], each["uid"]) for each in lines] == [
        ("would delete", "u2"),
        ("would delete", "u1"),
        ("delete", "u2"),
        ("delete", "u1"),
    ]
    printed, told = archive.run("prune", "--archive-retention", "failed=1h,successful=876000h")
    assert printed == "0 records were deleted\n"
    printed, told = archive.run("prune", "--archive-retention", "failed=1h", "--archive-retention", "successful=1h")
    assert (printed, json.loads(told)["uid"]) == ("1 records were deleted\n", "u3")


def test_a_database_that_is_not_there_is_not_made_by_looking(library: Archive, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept here.db"
    for arguments in (("search",), ("verify",), ("get", KIND, "ns1/a"), ("prune", "--archive-retention", "1h")):
        assert "kept here.db does not exist" in library.run(*arguments, code=2, SITUATE_ARCHIVE_URL=url)[1]
    assert not list(tmp_path.iterdir())
    library.run("migrate", "--from-archive-url", library.url, "--to-archive-url", url)
    assert library.run("search", SITUATE_ARCHIVE_URL=url)[0].count("ns1") == 3


def test_records_are_copied_once(archive: Archive, tmp_path: Path) -> None:
    other = Archive(tmp_path / "b")
    given = ("migrate", "--from-archive-url", archive.url, "--to-archive-url", other.url, "--name", "nightly")
    assert archive.run(*given, "--dry-run")[0].startswith("2 records would be copied, 0 already present")
    found = {"dryRun": False, "copied": 2, "present": 0, "newer": 0, "failed": [], "unreadable": []}
    assert archive.data(*given) == found, "the dry run copied nothing"
    assert archive.run(*given)[0] == "0 records copied, 2 already present, 0 present in a newer version\n"
    asyncio.run(archive.store.edit(done("nightly", "u1")))
    assert "not copied" in archive.run(*given, code=1)[1]
    assert other.data("verify")["whole"] == 2


class Cluster:
    """An embedded server with the kind of the reports."""

    def __init__(self, server: EmbeddedThread, folder: Path) -> None:
        self.server = server
        self.kubeconfig = str(server.kubeconfig(folder))

    def ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> Any:
        port = int(self.server.url.rpartition(":")[2])
        headers = {"Authorization": f"Bearer {self.server.token}"}
        status, text = ask(port, method, path, headers=headers, body=content)
        assert status < 300, text
        return json.loads(text)

    def states(self, name: str) -> list[dict[str, Any]]:
        """All that a report has been, in order."""
        table = self.server._server.api.store.table(f"reports.{GROUP}")
        return [
            json.loads(each.new.json())
            for each in table.events_since(table.floor)
            if each.new and each.new.name == name
        ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = Settings(machinery=None, tokens={"admin": ADMIN})
    with EmbeddedThread(settings) as server:
        found = Cluster(server, tmp_path_factory.mktemp("cluster"))
        found.ask("POST", CRDS, definition())
        found.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ns1"}})
        found.ask("POST", "/api/v1/namespaces/ns1/configmaps", {"metadata": {"name": "owner"}})
        yield found


def owned(*references: dict[str, Any]) -> Record:
    marks = {EPOCH: "3", "mine": "yes"}
    return done(
        "nightly", "u9", 20, ownerReferences=[*references], finalizers=[FINALIZER, "x.io/other"], annotations=marks
    )


REPORTS = f"/apis/{GROUP}/v1/namespaces/ns1/reports"


def test_an_object_comes_back_with_its_status_and_to_nobody(cluster: Cluster, tmp_path: Path) -> None:
    owner = cluster.ask("GET", "/api/v1/namespaces/ns1/configmaps/owner")
    present = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    gone = present | {"name": "gone", "uid": "g"}
    archive = Archive(tmp_path / "a", owned(present, gone, gone | {"apiVersion": "no.such/v1", "uid": "h"}))
    given = ("restore", KIND, "ns1/nightly", "--kubeconfig", cluster.kubeconfig)

    assert archive.run(*given, "--dry-run")[0] == "ns1/nightly would be restored\n"
    printed, told = archive.run(*given)
    assert printed == "ns1/nightly was restored\n"
    assert told.count("which is gone") == 2
    back = cluster.ask("GET", f"{REPORTS}/nightly")
    metadata = back["metadata"]
    assert back["status"] == owned().object["status"]
    assert "assignedTo" not in back["spec"]
    assert metadata["uid"] != "u9"
    assert [each["name"] for each in metadata["ownerReferences"]] == ["owner"]
    assert (metadata["finalizers"], metadata["annotations"]) == (["x.io/other"], {"mine": "yes"})

    _, told = archive.run(*given, code=2)
    assert "--as NAME" in told
    again, _ = archive.run(*given, "--as", "again", "--keep-owners", "-o", "json")
    assert [each["name"] for each in json.loads(again)["metadata"]["ownerReferences"]] == ["owner", "gone", "gone"]


def test_nobody_works_on_what_is_restored_before_its_status_is_there(cluster: Cluster, tmp_path: Path) -> None:
    record = done("held", "u7", annotations={EXECUTOR_SELECTOR: "gpu=true"})
    archive = Archive(tmp_path / "a", record)
    archive.run("restore", KIND, "ns1/held", "--kubeconfig", cluster.kubeconfig)
    states = cluster.states("held")
    selectors = [each["metadata"]["annotations"][EXECUTOR_SELECTOR] for each in states]
    assert selectors == [RESTORING, RESTORING, "gpu=true"]
    assert ["completedAt" in each.get("status", {}) for each in states] == [False, True, True]


def test_an_object_of_another_version_is_converted(cluster: Cluster, tmp_path: Path) -> None:
    content = report("old", uid="u6") | {"apiVersion": f"{GROUP}/v1alpha1"}
    archive = Archive(tmp_path / "a", archived(content))
    given = ("restore", KIND, "ns1/old", "--kubeconfig", cluster.kubeconfig)
    assert "convert" in archive.run(*given, code=2)[1]
    archive.run(*given, "--convert", f"{__name__}:to_v1")
    assert cluster.ask("GET", f"{REPORTS}/old")["apiVersion"] == f"{GROUP}/v1"


def to_v1(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"apiVersion": f"{GROUP}/v1"}

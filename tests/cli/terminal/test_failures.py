"""What people get wrong most: each is one sentence on standard error, with an exit code, and no traceback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.run.end import report_end
from situate.cli.run.reach_cluster import ConnectionCheck
from situate.cli.terminal.failures import ExitCode
from situate.kube.errors import Unreachable
from situate.runtime.process.health import CannotListen
from situate.runtime.process.manager import ServiceFailed
from tests.controlplane.ports import ReservedPort

COMMANDS = (("check",), ("vpod", "status"), ("vpod", "plan"), ("vpod", "explain", "a/b"), ("run",))
GOOD = """
apiVersion: situate.dev/v1alpha1
kind: Situate
health: {address: null}
vpod:
- {statefulSetNamespace: knative-eventing, statefulSetName: kafka-source-dispatcher, podCapacity: 20}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "situate.yaml"
    file.write_text(GOOD)
    return file


def failed(code: ExitCode, *arguments: str) -> str:
    """The sentence with which the call ends."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    sentence = result.stderr.strip()
    assert "\n" not in sentence
    assert sentence.startswith("situate: ")
    return sentence.removeprefix("situate: ")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_kubeconfig_that_is_not_there(command: tuple[str, ...], good: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    sentence = failed(ExitCode.CLUSTER, *command, "-f", str(good), "--kubeconfig", str(missing))
    assert sentence == f"{missing}: no such file; name an existing kubeconfig"


@pytest.mark.parametrize("command", [("status",), ("explain", "a"), ("plan",), ("drain", "n1")], ids=" ".join)
def test_commands_of_vm_do_without_a_configuration_and_not_without_a_cluster(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    missing = tmp_path / "nowhere"
    sentence = failed(ExitCode.CLUSTER, "vm", *command, "--kubeconfig", str(missing))
    assert sentence == f"{missing}: no such file; name an existing kubeconfig"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("content", ["", "[", "clusters: 7", "\x00", json.dumps({"current-context": "none"})])
def test_a_kubeconfig_that_is_none(command: tuple[str, ...], content: str, good: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(content)
    assert str(wrong) in failed(ExitCode.CLUSTER, *command, "-f", str(good), "--kubeconfig", str(wrong))


def test_a_server_that_does_not_answer(good: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with ReservedPort() as port:  # on which nobody listens
        server = f"http://127.0.0.1:{port.number}"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "c",
                }
            )
        )
        sentence = failed(ExitCode.CLUSTER, "check", "-f", str(good), "--kubeconfig", str(kubeconfig))
    assert f"at {server}: connection refused; check that the server runs" in sentence
    assert f"check `server` in context c of {kubeconfig}" in sentence


@pytest.mark.parametrize(
    ("option", "code"),
    [("-f", ExitCode.WRONG_INPUT), ("--objects", ExitCode.WRONG_INPUT), ("--kubeconfig", ExitCode.CLUSTER)],
)
@pytest.mark.parametrize(
    ("below", "problem"),
    [
        pytest.param("a" * 300, "File name too long", id="a name that no file can have"),
        pytest.param("situate.yaml/config", "Not a directory", id="below a file"),
    ],
)
def test_a_path_that_cannot_be_looked_at(
    option: str, code: ExitCode, below: str, problem: str, good: Path, tmp_path: Path
) -> None:
    """As a folder that belongs to somebody else cannot, which root does not meet."""
    sentence = failed(code, "vpod", "plan", "-f", str(good), option, str(tmp_path / below))
    assert f"{tmp_path / below}: cannot be read: {problem}" in sentence


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_configuration_that_is_not_there(command: tuple[str, ...], tmp_path: Path) -> None:
    missing = tmp_path / "situate.yaml"
    assert "no such file; name the configuration with -f" in failed(ExitCode.WRONG_INPUT, *command, "-f", str(missing))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("podCapacity: 20", "podCapacity: 0"), "vpod[0].podCapacity: found 0, allowed: an integer of at least 1"),
        (("podCapacity: 20", "podcapacity: 20"), "did you mean podCapacity"),
        (("kind: Situate", "kind: Other"), 'kind: found "Other", allowed: Situate'),
        (("vpod:", "vpods:"), "did you mean vpod"),
    ],
)
def test_a_mistake_in_the_configuration_is_named(change: tuple[str, str], sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(GOOD.replace(*change))
    result = CliRunner().invoke(app, ["check", "--offline", "-f", str(file)])
    assert result.exit_code == ExitCode.WRONG_INPUT
    assert sentence in result.stderr


def test_a_statefulset_that_is_named_twice(tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(GOOD + GOOD.splitlines()[-1].replace("20", "10") + "\n")
    sentence = failed(ExitCode.WRONG_INPUT, "check", "--offline", "-f", str(file))
    assert "vpod[1].statefulSetName: found knative-eventing/kafka-source-dispatcher" in sentence
    assert "allowed: one entry for each StatefulSet; vpod[0] has the same StatefulSet" in sentence


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(("--port", "99999"), "65535", id="a port that is none"),
        pytest.param(("--nodes", "1000000000"), "20000", id="more nodes than anybody means"),
    ],
)
def test_a_number_that_no_server_can_use(arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["embedded", *arguments])
    assert result.exit_code == ExitCode.WRONG_INPUT
    assert told in result.stderr


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path) -> None:
    sentence = failed(ExitCode.NO, "embedded", "--port", "0", "--write-kubeconfig", str(tmp_path))
    assert sentence == f"--write-kubeconfig {tmp_path}: Is a directory; name a writable file"


def test_an_override_with_a_mistake_names_the_flag(good: Path) -> None:
    sentence = failed(ExitCode.WRONG_INPUT, "run", "-f", str(good), "--set", "vpod[0].podCapacity=none")
    assert "flag --set vpod[0].podCapacity" in sentence


def test_a_source_that_does_not_exist_is_said(good: Path, tmp_path: Path) -> None:
    objects = tmp_path / "objects.yaml"
    objects.write_text("{apiVersion: v1, kind: List, items: []}")
    arguments = ("vpod", "explain", "shop/orders", "-f", str(good), "--objects", str(objects))
    assert failed(ExitCode.WRONG_INPUT, *arguments).startswith("shop/orders: source not found")


def test_a_process_says_what_can_be_mended_in_a_sentence_and_shows_a_defect_with_its_stack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def service(name: str, cause: Exception) -> ServiceFailed:
        made = ServiceFailed(name, cause)
        made.__cause__ = cause
        return made

    with capture_logs() as logs:
        assert report_end(service("health server", CannotListen("--health-address :1 is taken"))) is ExitCode.NO
    assert (capsys.readouterr().err, logs) == ("situate: --health-address :1 is taken\n", [])
    with capture_logs() as logs:
        assert report_end(service("vm", ZeroDivisionError("oh"))) is ExitCode.NO
    assert "vm has failed, so the process stops: ZeroDivisionError: oh" in capsys.readouterr().err
    assert [type(each["exc_info"]) for each in logs] == [ZeroDivisionError]
    unreachable = Unreachable("nobody answers", outcome_unknown=False)
    with pytest.raises(Unreachable):
        report_end(service(ConnectionCheck.name, unreachable))
    with capture_logs() as logs:
        assert report_end(service("vm", unreachable)) is ExitCode.NO, "what reached the cluster before should go on"
    assert logs


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404, "no such page")

    def log_message(self, *args: object) -> None:
        """Nothing, on standard error."""


@pytest.mark.finding("N7")
@pytest.mark.parametrize(
    "command", [("scheduler", "status"), ("scheduler", "explain", "web"), ("vm", "status")], ids=" ".join
)
def test_a_server_that_is_no_kubernetes_api(command: tuple[str, ...], tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        cluster = {"clusters": [{"name": "a", "cluster": {"server": url}}], "users": [{"name": "a", "user": {}}]}
        contexts = {"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **contexts}))
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            sentence = failed(ExitCode.CLUSTER, *command, "--kubeconfig", str(kubeconfig))
        finally:
            server.shutdown()
            serving.join()
    assert f"the answer does not come from a Kubernetes API server at {url} (found 404" in sentence
    assert "CRD" not in sentence

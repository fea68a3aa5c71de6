from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from situate.runtime.process.logs import configure_logging

ROOT = Path(__file__).parents[3]
ALWAYS = {"time", "level", "message", "exception", "logger"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_has_fixed_keys_and_one_line() -> None:
    out = io.StringIO()
    configure_logging("info", "auto", out)
    log = structlog.get_logger().bind(controller="vpod")
    log.debug("not shown")
    log.info("started", key="a\nb")
    try:
        raise ZeroDivisionError("oh")
    except ZeroDivisionError as problem:
        log.error("reconciliation failed unexpectedly", exc_info=problem)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first.pop("time"))
    assert first == {"level": "info", "message": "started", "controller": "vpod", "key": "a\nb"}
    assert "ZeroDivisionError: oh" in second["exception"]
    assert set(second) <= ALWAYS | {"controller"}


def test_a_terminal_gets_lines_for_people() -> None:
    out = Terminal()
    configure_logging("info", "auto", out)
    structlog.get_logger().info("started", key="web")
    assert "started" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_a_reader_that_has_gone_stops_nobody() -> None:
    out = io.StringIO()
    configure_logging("info", "json", out)
    log = structlog.get_logger()
    out.close()
    log.warning("leadership lost")
    logging.getLogger("library").warning("and this")


def test_libraries_come_out_the_same_way_from_warnings_on() -> None:
    out = io.StringIO()
    configure_logging("info", "json", out)
    logging.getLogger("aiohttp.server").info("not shown")
    logging.getLogger("aiohttp.server").warning("bad request")
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["message"], line["logger"], line["level"]) == ("bad request", "aiohttp.server", "warning")


@pytest.mark.finding("N30")
def test_a_kopf_handlers_lines_have_the_level_that_was_asked_for_and_name_the_object() -> None:
    """`logger.info` in a handler, as Kopf's users write it."""
    out = io.StringIO()
    configure_logging("info", "json", out)
    logger = logging.LoggerAdapter(logging.getLogger("situate.kopf"), {"key": "team/build"})
    logger.debug("not shown")
    logger.info("compiled %d files", 3)
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["message"], line["level"], line["key"]) == ("compiled 3 files", "info", "team/build")
    configure_logging("warning", "json", out)
    logger.info("not shown")
    assert len(out.getvalue().splitlines()) == 1


def test_the_level_can_be_changed_while_running() -> None:
    out = io.StringIO()
    configure_logging("error", "json", out)
    log = structlog.get_logger()
    log.info("not shown")
    configure_logging("debug", "json", out)
    structlog.get_logger().debug("shown")
    assert [json.loads(line)["message"] for line in out.getvalue().splitlines()] == ["shown"]


def _logging_calls() -> Iterator[tuple[Path, ast.Call]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                logs = owner.split(".")[-1] in ("log", "_log") or owner.endswith("get_logger()")
                if logs and node.func.attr in ("debug", "info", "warning", "error", "bind"):
                    yield path, node


def test_every_key_is_listed_and_every_message_is_constant() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reference" / "logs.md").read_text(), re.MULTILINE))
    used: dict[str, str] = {}
    for path, call in _logging_calls():
        where = f"{path.relative_to(ROOT)}:{call.lineno}"
        used |= {each.arg: where for each in call.keywords if each.arg not in (None, "exc_info")}
        for argument in call.args:
            assert isinstance(argument, ast.Constant), f"{where}: a message is a constant"
    taken = {"time", "level", "message", "event"}
    assert not {key: where for key, where in used.items() if key in taken}, "every line has these keys already"
    assert not {key: where for key, where in used.items() if key not in listed}, (
        "add these keys to docs/reference/logs.md"
    )
    # the reconciler passes these on as one mapping
    mapped = {"key", "error", "retry_after_s"}
    assert not listed - set(used) - ALWAYS - mapped, "docs/reference/logs.md lists keys that nobody uses"

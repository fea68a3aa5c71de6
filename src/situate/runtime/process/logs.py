"""How logs look: JSON with fixed keys for machines, coloured lines for a person at a terminal.

A message is a constant; what varies is in keys, and every key is listed in `docs/reference/logs.md`. Whoever logs asks
`structlog.get_logger()`; only the shell does.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "console"]


def configure_logging(level: Level = "info", form: Format = "auto", stream: TextIO | None = None) -> None:
    """Sets up the whole process; may be called again after a reload. `auto` is console on a terminal, else JSON.

    Libraries that use `logging` come out the same way, from warnings on. Loggers below `situate`, such as a Kopf
    handler's, have the level that was asked for.
    """
    out = _Lasting(sys.stderr if stream is None else stream)
    console = form == "console" or (form == "auto" and out.isatty())
    number: int = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    last: structlog.types.Processor
    if console:
        last = structlog.dev.ConsoleRenderer(colors=out.isatty(), timestamp_key="time", event_key="message")
    else:
        last = structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[*shared, structlog.processors.EventRenamer("message"), last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, out)),
        cache_logger_on_first_use=False,  # a reload may change level and form
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_logger_name,
                structlog.stdlib.ExtraAdder(allow=["key"]),
                *shared,
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.EventRenamer("message"),
                last,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("situate").setLevel(number)


class _Lasting:
    """A stream whose lines are lost where they cannot be written, because the disk is full or the reader has gone.

    A scheduler that cannot log still schedules, and there is nowhere left to say so.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

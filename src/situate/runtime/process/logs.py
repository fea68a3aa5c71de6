"""The format of logs: JSON with fixed keys for programs, coloured lines for a person at a terminal.

A message is a constant; variable data is in keys, and `docs/logging.md` lists every key. Only the shell logs, through
`structlog.get_logger()`.
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
    """Configure the logs of the whole process; may be called again after a reload.

    `auto` is console on a terminal, else JSON. Libraries that use `logging` have the same format, from warnings on.
    Loggers below `situate`, such as a Kopf handler's, have the level `level`.
    """
    out = _LossyStream(sys.stderr if stream is None else stream)
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
        cache_logger_on_first_use=False,  # a reload may change level and format
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


class _LossyStream:
    """A stream that drops lines it cannot write, because the disk is full or the reader has gone.

    A scheduler that cannot log still schedules, and has no other place to report the failure.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

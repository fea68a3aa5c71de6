"""Runs folders of vectors: finds a runner for each file by its name, runs every case, counts, and prints.

One module a system holds the table from file name to runner; this one knows nothing of cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import knative, ksched, kube_scheduler, neon, spot
from tests.conformance.outcome import CaseRunner, Outcome, attempted
from tests.conformance.remarks import without_remarks

SYSTEMS: Mapping[str, Mapping[str, CaseRunner]] = {
    "knative": knative.RUNNERS,
    "ksched": ksched.RUNNERS,
    "kube-scheduler": kube_scheduler.RUNNERS,
    "neon": neon.RUNNERS,
    "spot": spot.RUNNERS,
}
LAYOUTS = {**ksched.CASES, **neon.CASES, **spot.CASES}
NOT_A_TEST = {"README.md", "benchmarks.json"}
VECTORS = Path(__file__).parent / "vectors"


@dataclass(frozen=True, slots=True)
class Result:
    file: str
    case: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FileReport:
    """The results of one file; `error` instead, if the file itself could not be run."""

    file: str
    results: tuple[Result, ...] = ()
    error: str = ""

    def count(self, verdict: str, optional: bool = False) -> int:
        return sum(r.outcome.verdict == verdict and r.outcome.optional is optional for r in self.results)

    @property
    def failures(self) -> int:
        return self.count("failed") + bool(self.error)

    def lines(self) -> Iterator[str]:
        if self.error:
            yield f"{self.file}: 0 passed, 1 failed, 0 skipped"
            yield f"  FAILED {self.error}"
            return
        line = f"{self.file}: {_counts(self.count('passed'), self.count('failed'), self.count('skipped'))}"
        if any(r.outcome.optional for r in self.results):
            apart = _counts(*(self.count(verdict, optional=True) for verdict in ("passed", "failed", "skipped")))
            line += f"; O: {apart}"
        yield line
        for result in self.results:
            mark = "O " if result.outcome.optional else ""
            if result.outcome.verdict == "failed":
                yield f"  {mark}FAILED {result.case}: {result.outcome.detail}"
            elif result.outcome.verdict == "skipped":
                yield f"  {mark}skipped {result.case}: {result.outcome.detail}"


def main(arguments: Iterable[str], write: Callable[[str], object] = print) -> int:
    """Exit status 1 if a case that must pass fails, or a file or folder cannot be run."""
    reports: list[FileReport] = []
    for folder in map(Path, arguments) if arguments else [VECTORS]:
        for report in _reports(folder):
            reports.append(report)
            for line in report.lines():
                write(_shown(line))
    failures = sum(report.failures for report in reports)
    total = (
        f"total: {_counts(sum(r.count('passed') for r in reports), failures, sum(r.count('skipped') for r in reports))}"
    )
    apart = [sum(r.count(verdict, optional=True) for r in reports) for verdict in ("passed", "failed", "skipped")]
    write(f"{total}; O: {_counts(*apart)}" if any(apart) else total)
    return 1 if failures or not reports else 0


def _reports(folder: Path) -> Iterator[FileReport]:
    """Of one system's folder, or of all systems in a parent folder."""
    if not folder.is_dir():
        yield FileReport(str(folder), error="no such folder")
        return
    systems = [folder] if any(folder.glob("*.json")) else sorted(p for p in folder.iterdir() if p.is_dir())
    for system in systems or [folder]:
        if not any(system.glob("*.json")):
            yield FileReport(system.name, error=f"{system.name} holds no vectors")
        for file in sorted(system.iterdir()):
            if file.name not in NOT_A_TEST:
                yield run_file(file, system.name)


def run_file(file: Path, system: str) -> FileReport:
    """Every case of one file. `system` is the folder's name; a folder of any name is run if its files are known."""
    name = f"{system}/{file.name}"
    tables = [SYSTEMS[system]] if system in SYSTEMS else list(SYSTEMS.values())
    runner = next((table[file.name] for table in tables if file.name in table), None)
    if runner is None:
        return FileReport(name, error=f"unknown file {file.name}: no runner is known by that name")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return FileReport(name, error=f"{file.name} cannot be read as JSON: {error}")
    try:
        cases = _cases(document, file.name)
    except Exception as error:  # whatever its shape, the other files are run
        return FileReport(name, error=f"{file.name} holds no list of cases: {error!r}")
    if not isinstance(cases, list):
        return FileReport(name, error=f"{file.name} holds no list of cases")
    return FileReport(
        name, tuple(Result(name, _name(n, case), attempted(runner, _plain(case))) for n, case in enumerate(cases))
    )


def _cases(document: Any, file: str) -> Any:
    layout = LAYOUTS.get(file)
    if layout is not None:
        return layout(document)
    return document.get("cases") if isinstance(document, dict) else document


def _plain(case: Any) -> Any:
    """The case without remarks; what is no mapping is left for `attempted` to refuse."""
    return without_remarks(case) if isinstance(case, Mapping) else case


def _name(number: int, case: object) -> str:
    """As the case says; its place in the file if it says nothing."""
    given = case if isinstance(case, Mapping) else {}
    identity, title = given.get("id"), given.get("name")
    return f"{identity} ({title})" if identity and title else str(identity or title or f"case {number}")


def _shown(line: str) -> str:
    """What a terminal can show: names and differences are whatever a file holds."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


def _counts(passed: int, failures: int, skips: int) -> str:
    return f"{passed} passed, {failures} failed, {skips} skipped"

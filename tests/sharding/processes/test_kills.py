"""A supervisor and an executor, as real processes, are killed between every two calls that they make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from situate.sharding.model.object_view import view_of
from situate.testing.sharding.world.reports import PATHS
from tests.sharding.processes.calls import UNFENCED, WRITES
from tests.sharding.processes.company import Company
from tests.sharding.processes.errands import Errands
from tests.sharding.processes.judging import Run, breaches
from tests.sharding.processes.mortal import ARRIVES, required
from tests.sharding.processes.units import LEDGER, kind_of
from tests.sharding.processes.witness import Witness
from tests.waiting import WITHIN_S, eventually

ROLES = {"a": "executor", "s": "supervisor"}
REFUSED = {"404", "409", "422"}


@pytest.mark.rule("sharding:S1-S3", "sharding:S6-S11", "sharding:L2", "sharding:L4")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_a_supervisor_and_an_executor_are_killed_between_every_two_of_their_calls(company: Company) -> None:
    """From the assignment of a unit of work to the end of its object, and from the first call of a process to its last.
    A pair of calls ends a life when it occurs first, so that none is left out; that each is among them which belongs to
    such a life is asked here, and a call of another kind fails the test."""
    witness = Witness(company.place, company.namespace)
    errands = Errands(company)
    ledger = company.folder / "ledger"
    company.executor("a", "mortal", **{LEDGER: str(ledger)})
    company.supervisor("s", "mortal")

    def left() -> set[str]:
        """What must end a life yet."""
        _judge_so_far(company, _runs(ledger))
        ends = {name: [*required(role)] for name, role in ROLES.items()}
        missing = {name: [end for end in ends[name] if str(end) not in _lines(company, name)] for name in ROLES}
        errands.run({call for each in missing.values() for end in each for call in (end.call, end.former)})
        return {f"{name}: {end}" for name, each in missing.items() for end in each}

    eventually("every life has ended", left, lambda ends: not ends, within_s=5 * WITHIN_S)
    leave = ("quick", "failing", "doomed")

    def is_done() -> bool:
        """What was taken back waits for the Lease of whoever had it, for longer than the test does."""
        here = {name: each for name, each in company.reports().items() if not view_of(each, PATHS).revoked}
        dropped = [name for name in errands.dropped if kind_of(name) == "stay"]
        return not any(kind_of(name) in leave or name in dropped for name in here)

    eventually("all is done that was to be", is_done)
    counts = company.counts()
    stay = [name for name in counts if kind_of(name) == "stay" and name not in errands.dropped]
    assert len(stay) == 2
    eventually("the rest goes on", company.counts, lambda now: all(now[name] != counts[name] for name in stay))
    _judge(company, witness, errands, _runs(ledger))


def _lines(company: Company, name: str) -> set[str]:
    process = company.processes[name]
    assert process.running, process.tail(40)
    return {*process.log.read_text().splitlines()}


def _runs(ledger: Path) -> list[Run]:
    return [Run(*line.split()) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def _judge_so_far(company: Company, runs: list[Run]) -> None:
    """What shows at once: nothing is begun twice under one epoch, and no late write is accepted."""
    begun = [run.token for run in runs if run.what == "begins"]
    assert len(begun) == len({*begun})
    for name in ROLES:
        late = re.findall(f"{ARRIVES}(.*): (.*)\n", company.log(name))
        assert not [(call, answer) for call, answer in late if call not in UNFENCED and answer not in REFUSED]


def _judge(company: Company, witness: Witness, errands: Errands, runs: list[Run]) -> None:
    _judge_so_far(company, runs)
    witness.catch_up()
    witness.end()
    here = {*company.reports()}
    records = [json.loads(path.read_text()) for path in company.archive.rglob("[!.]*.json")]
    assert not [*breaches(witness.seen, runs, records, "a")]
    recorded = {record["subject"]["name"] for record in records}
    never_given = {name for name in errands.made if kind_of(name) == "lone"}
    assert errands.made - never_given <= recorded | here
    reasons = {(kind_of(record["subject"]["name"]), record["reason"]) for record in records}
    ended = {("quick", "Done"), ("failing", "HandlerFailed"), ("doomed", "ReassignLimit")}
    assert ended <= reasons <= ended | {(kind, "") for kind in ("stay", "stubborn", "orphan")}
    for name, role in ROLES.items():
        assert {*re.findall(f"{ARRIVES}(.*): .*\n", company.log(name))} == {*WRITES[role]}

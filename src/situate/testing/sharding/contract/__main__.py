"""`python -m situate.testing.sharding.contract --command "node executor.js"`: tests an executor, and reports each rule.

Exit code 0: all rules are kept; 1: at least one is broken; 2: not all could be tested.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from situate.testing.sharding.contract.contract_checks import RuleNotTested, play_contract
from situate.testing.sharding.contract.contract_environment import ContractEnvironment
from situate.testing.sharding.contract.rules import RULES, Timing
from situate.testing.virtual_time.isolation import suppress_logs

BROKEN = 1
NOT_TESTED = 2
app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def main(
    command: Annotated[str, typer.Option(help="Command that starts the executor; environment variables configure it.")],
    lease_duration: Annotated[
        float,
        typer.Option(
            min=3.0, help="Duration of the Lease in seconds; the executor's other durations are derived from it."
        ),
    ] = 15.0,
) -> None:
    """Act as the supervisor of one executor on an embedded server, and report the rules that the executor keeps."""
    with tempfile.TemporaryDirectory(prefix="situate-contract-") as folder, suppress_logs():
        code = asyncio.run(_run_contract(command, Timing(lease_duration), Path(folder)))
    raise typer.Exit(code)


async def _run_contract(command: str, timing: Timing, folder: Path) -> int:
    place = ContractEnvironment(command, timing, folder)
    broken, told, missing = 0, set[str](), ""
    try:
        await place.start()
        try:
            async for finding in play_contract(place):
                typer.echo(str(finding))
                broken += not finding.satisfied
                told.add(finding.rule)
        except RuleNotTested as problem:
            missing = str(problem)
    except OSError as problem:
        missing = f"the command cannot be started: {problem.strerror or problem}"
    finally:
        await place.stop()
    if missing:
        typer.echo(f"not tested: {', '.join(rule for rule in RULES if rule not in told)}; {missing}")
    if (broken or missing) and (lines := place.log_tail()):
        typer.echo("last lines of the executor's log:")
        for line in lines:
            typer.echo(f"  {line}")
    typer.echo(f"{len(told) - broken} of {len(RULES)} rules are kept")
    if broken:
        return BROKEN
    return NOT_TESTED if missing else 0


if __name__ == "__main__":
    app()

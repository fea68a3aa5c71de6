"""Start the products as a user would: with the objects that `situate manifests` prints, each as its own process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.demo_processes import DemoProcesses
from situate.cli.demo.service_accounts import Account, Accounts
from situate.cli.demo.vpod.objects import CONFIGURATION, SYSTEM
from situate.cli.input.products import Product
from situate.cli.manifests.manifests import Installation, manifest_objects

SCHEDULERS: Final = ("scheduler-1", "scheduler-2")


class Products:
    """Products on one stage."""

    def __init__(self, stage: DemoProcesses, accounts: Accounts) -> None:
        self.processes = stage
        self.accounts = accounts

    async def start_schedulers(self) -> None:
        """Start two schedulers with one account, as replicas have it. Their names are their identities."""
        file = self.write("situate", CONFIGURATION)
        (account,) = await self.install(None, file)
        for name in SCHEDULERS:
            await self._run(name, file, account)

    async def start(
        self, name: str, content: Mapping[str, Any], product: Product | None = None, namespace: str = SYSTEM
    ) -> None:
        """Start another process with this configuration only."""
        file = self.write(name, content)
        account, *_ = await self.install(product, file, namespace)
        await self._run(name, file, account)

    async def install(self, product: Product | None, file: Path | None, namespace: str = SYSTEM) -> list[Account]:
        """Create the printed objects in a namespace, except the Pods, and return the accounts."""
        return await self.accounts.create(
            manifest_objects(product, file, Installation(namespace, "example.com/situate:1", 2))
        )

    def write(self, name: str, content: Mapping[str, Any]) -> Path:
        file = self.processes.folder / f"{name}.yaml"
        file.write_text(json.dumps(content))  # JSON is YAML
        return file

    async def _run(self, name: str, file: Path, account: Account) -> None:
        await self.processes.start(
            name,
            *("run", "-f", str(file), "--kubeconfig", str(account.kubeconfig)),
            *("--set", f"leaderElection.identity={name}", "--set", "health.address=127.0.0.1:0"),
            namespace=account.namespace,
        )

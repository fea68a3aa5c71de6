"""The shell of vm: a scheduler whose profile has the ledger's plugin, and what keeps and carries out that ledger."""

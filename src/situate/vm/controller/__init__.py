"""The shell of vm: a scheduler with the ledger's plugin in its profile, and the code around the ledger."""

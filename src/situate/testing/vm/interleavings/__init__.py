"""Interleavings of the events of vm's ledger. `interleaving` plays one, and the other modules perform its steps."""

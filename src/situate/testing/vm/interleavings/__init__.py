"""Interleavings of the events of vm's ledger: `interleaving` plays one; what may happen in it is in the others."""

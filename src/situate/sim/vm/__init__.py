"""Machines on virtual time: the shipped `situate.vm.ledger.step` beside a cluster that only happens here."""

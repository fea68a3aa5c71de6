"""Machines on virtual time: the shipped `situate.vm.step` beside a cluster that only happens here."""

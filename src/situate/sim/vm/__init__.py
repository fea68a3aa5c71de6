"""VMs on virtual time: the shipped `situate.vm.ledger.step` with a simulated cluster."""

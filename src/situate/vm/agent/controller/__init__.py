"""The shell of the agent: one process per node, with all I/O for the decisions of `situate.vm.agent.decide.core`."""

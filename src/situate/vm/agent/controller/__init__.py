"""The shell of the agent: one process a node, which asks, writes and listens as `situate.vm.agent.decide.core` says."""

"""State and settings of the agent.

The modules define immutable values. The functions in `situate.vm.agent.decide` take a `State` and return the next one.
Read `state` first: the size of one VM, the requests in progress, and the last answers of scheduler and monitor.
`revisions` numbers each change of the desired size, so that the agent can measure its latency.
`settings` defines the configuration file and its defaults.
"""

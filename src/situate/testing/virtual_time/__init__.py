"""Processes, network and cluster on a virtual clock, so that one seed gives one history.

Read `processes` first: each process has an asyncio loop that runs only when the driver gives it a turn.
`network` delays, loses and reorders requests and watch events between processes and the API server.
`world` joins both with a cluster in memory. `isolation` stops the garbage collector and logs during a history.
"""

"""`situate run`: one process with the products that the configuration names.

Read `run` first: it builds the clients, the controllers and the servers, and starts them as services.
`reach_cluster` checks the connection before that. `scheduler_setup` loads profiles and plugins of the scheduler.
`supervise` starts the supervisors of sharding. `end` reports why a process ended without a request.
"""

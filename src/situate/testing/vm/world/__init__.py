"""The world of a history of vm: VMs, nodes, agents and the shipped processes on one virtual clock.

`processes` starts the shipped processes, `history_world` adds faults to clocks and calls, and `disturbances` injects
them. `agents` ask for resources, and `nodes_and_pods` changes the rest of the cluster.
"""

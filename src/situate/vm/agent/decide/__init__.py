"""Decisions of the agent about one VM, as functions of its state and the time.

The functions take the state of `situate.vm.agent.model`, and return the next requests or the next state.
The controller of the agent sends the requests to the scheduler, the VirtualMachine and the monitor in the guest.
Read from load to size: `scaling` (settings), `working_set` (cache estimate), `goal` (compute units), `desired_size`
(size). Then read `core`, which orders the requests, and `outcomes`, which applies their results to the state. `health`
decides whether a VM counts as unhealthy. `stand_in` answers for the monitor of a VM without a guest.
"""

"""Scheduler without I/O: takes cluster events and the time, returns decisions.

A host passes Nodes, Pods and results to `Engine`, asks for decisions, and carries them out.
The live scheduler, the simulator, `what_if` questions and the benchmarks are such hosts.
Start with `engine`, then `decisions` (the possible results of a cycle) and `messages` (texts for unschedulable Pods).
`choose_node` selects the node of one Pod, and `extender_cycle` does the same if extenders take part.
`batch_scheduling` places consecutive Pods together. `waiting_pods` holds Pods until their Permit plugins allow them.
"""

"""Every order of events in small worlds of sharding (B12): breadth first, each state once, by the shipped decisions.

`hand_over`: two executors, two supervisors, one object, one crash, one pause, messages under way and answers lost.
`archive`: two supervisors archive one object while others write it, delete it, and use its name again. `search` knows
nothing of either. A guard that is left out (`Guard`) must be noticed.
"""

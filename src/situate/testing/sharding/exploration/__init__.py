"""Every order of events in small worlds of sharding (B12): breadth first, each state once, by the shipped decisions.

`hand_over`: two executors, two supervisors, one object, one crash, one pause, messages on their way and lost answers.
`archive`: two supervisors archive one object while users edit it, delete it, and use its name again. `search` is
independent of both. The search must find a breach if a guard (`Guard`) is left out.
"""

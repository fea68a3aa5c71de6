"""The state of one StatefulSet: its Pods, vpods, placements and reservations, updated event by event.

Input: observed Pods, nodes and vpods, and committed decisions. Output: `State`, the argument of every decision.
`State` inherits from the counts, and the counts inherit from the Pods.
Read in this order: `pods` (slots and classes), `counts` (used capacity) and `state` (the complete state).
Then read `vpod_view`: one vpod and the free capacity for it on each Pod, during a decision.
`fairness_limits` applies quotas, fair shares and priorities to additions.
`ordered_ready` finds the Pod that blocks an OrderedReady StatefulSet.
`knative_json` writes the state with Knative's keys and compares two states.
"""

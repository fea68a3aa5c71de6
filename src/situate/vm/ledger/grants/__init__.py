"""Grants: decide how much of a request each Pod gets, and in which order.

The functions change the transaction of the current step: sizes to approve, Pods to resize, and requests that wait.
Start with `arithmetic` (the amount that fits) and `wait_queue` (the order of the requests on a node).
`resource_requests` handles the request of an agent, and `pod_resize` handles the resize of a plain Pod.
`runner_pod_resize` updates the requests of a runner Pod together with its VM.
`early_pod_resize` resizes a Pod shortly before a migration frees the capacity, so that no other Pod takes it.
"""

"""Leadership: the work of a process while it holds the Lease.

`leader` takes part in the election and runs the terms of one controller. `actuator` performs writes only while this
process leads, and ends a term after its last write. `rollout` hands the Lease to a Pod of a newer revision.
`leader_label` labels the leading Pod, so that a Service selects it.
"""

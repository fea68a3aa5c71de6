"""The size of the StatefulSet: demand, autoscaling and scale-down without lost work.

Input: `State`, the memory of the autoscaler and the time. Output: replicas, evictions, and the start or end of a drain.
Read `demand` (how many Pods the vpods need), then `drain` (move vreplicas first, lower `spec.replicas` second).
Then read `autoscaler`: each round (`beat`) of the leader combines both.
`scale_cache` is separate: it decides how long a cached scale is valid. `controller` does all I/O.
"""

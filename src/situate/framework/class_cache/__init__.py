"""Cached answers for equal Pods, so that a Pod costs the rescoring of the changed nodes only.

The cache takes a Pod, a profile and a snapshot, and returns the same result as `situate.framework.cycle`.
`switches` lists the shortcuts and lets you disable each of them.
Read `pod_class_cache` first, then `pod_class`, the answers for one class of equal Pods.
`static_scores` stores the answers that depend on nodes alone. `resource_scorers` evaluates resource plugins together.
`score_board` updates the totals of many classes at once, and `running_maximum` finds the best of many totals.
`nominated_conflicts` caches the nodes that have no capacity left because of nominated Pods.
`equal_pod_runs` places a series of equal Pods in one step.
"""

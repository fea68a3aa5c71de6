"""The values of vpod: vpods, placements, Pods, nodes and options.

Input: Pod and Node objects, and settings. Output: small values that `state`, `placement` and `scaling` use.
Read `vpod` first: it has Knative's names, such as `Placement`, `VPod` and `Scheduler`.
Then read `options` (the settings of one StatefulSet) and `pod_classes` (which Pods accept, hold or reject vreplicas).
`pod_facts` converts Kubernetes objects to facts. `records` holds the mutable entries that only `State` changes.
"""

"""The kube-scheduler-compatible scheduler: from watches to decisions of the framework, and from those to bindings.

`config` reads the settings and `controller` runs the scheduler. `extenders` calls scheduler extenders over HTTP.
`shadow` compares with another scheduler. `recordings` records a cluster and replays it under another profile.
"""

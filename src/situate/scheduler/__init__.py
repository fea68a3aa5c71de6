"""The kube-scheduler-compatible scheduler: watches feed the framework, and its decisions become bindings.

`config` reads the settings and `controller` runs the scheduler. `extenders` calls scheduler extenders over HTTP.
`shadow` compares with another scheduler. `recordings` records a cluster and replays it under another profile.
"""

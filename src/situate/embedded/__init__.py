"""An HTTP API server over the in-memory cluster, for tests, the demo and trying an operator.

`embedded_server` assembles it: the HTTP side in `http`, calls to webhooks in `webhooks`, the cluster's controllers in
`controllers_task`, and `journal`, which stores every acknowledged change on disk. `pods` runs Pods as local processes,
and `virtual_machines` runs the emulator of VMs as a controller of the cluster.
"""

"""Scheduler that resizes running VMs in place and live-migrates other VMs to free capacity.

Watched objects and requests for capacity enter. Bindings, approved sizes, migrations and Events leave.
Read the values first: `config`, `model`, `api` (annotations), `backends` (NeonVM, KubeVirt) and `protocol` (requests).
Then read the decisions: `planning` selects migrations, `ledger` handles events, `placement` is the scheduler plugin.
`explain` answers questions about Pods and nodes. `controller` and `server` run the process and its HTTP port.
`agent` measures load and asks for capacity. `emulator` replaces NeonVM on clusters without a hypervisor.
`permissions` lists the RBAC rights of all of them.
"""

"""Systems that run and live-migrate VMs: NeonVM and KubeVirt.

A `System` takes Pods and VM objects, and returns values of `situate.vm.model`.
Its `Backend` returns the writes that create, cancel and delete a migration, and reads the migration's progress.
The ledger and the planner use only these two interfaces. Read `systems` and `neonvm` first, which define them.
Then read `kubevirt`, the second system, and its parts: `kubevirt_names`, `kubevirt_instances` and `kubevirt_pods`.
`kubevirt_migrations` is the backend of KubeVirt.
"""

"""Read objects for a command: from the API server of a kubeconfig, or from files that hold a copy.

`cluster_source` opens the client and selects namespaces. `files` answers reads from files. `stores` fills the stores of
a product's watches once, and reads the Lease of its leader. `other_namespaces` reports objects that a list omits.
"""

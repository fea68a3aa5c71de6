"""Controllers for objects of the whole cluster: namespaces, owner references and EndpointSlices.

Changes of namespaces, owned objects, Services and Pods go in. Service accounts, EndpointSlices and deletions come out.

Read `namespaces` first: it creates the `default` service account and empties a deleted namespace.
Then read `garbage_collector`: it deletes objects without a living owner, and performs foreground and orphan deletion.
`endpoint_slices` lists the addresses of the Pods that each Service selects.
"""

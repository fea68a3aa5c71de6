"""Test clusters, objects and archives for tests of this project and of yours.

`fixtures` offers a cluster in memory to pytest. `objects` builds Pods, nodes and other Kubernetes objects.
`operators` runs the manifests of an operator, with its Pods as processes of this machine.
`archive` wraps an archiver: it passes each call on, or fails as the test says.
"""

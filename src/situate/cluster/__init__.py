"""An in-memory Kubernetes cluster without I/O: versioned store, API semantics, controllers as state machines."""

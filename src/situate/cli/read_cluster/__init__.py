"""Read objects for a command: from the API server of a kubeconfig, or from files that hold a copy."""

"""Where a question's objects come from: the API server of a kubeconfig, or files that hold a copy of them."""

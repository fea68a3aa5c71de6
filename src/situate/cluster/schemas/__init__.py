"""Type information of Kubernetes' built-in kinds and of custom resources."""

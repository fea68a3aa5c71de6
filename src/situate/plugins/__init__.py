"""kube-scheduler's default plugins (1.36) over columns, one file each, with the upstream names."""

"""kube-scheduler's default plugins (1.36) over columns, a file each; named as upstream names them."""

"""The real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok as plain processes.

`components` says what is built and how, `build` builds and caches it, `plane` starts and stops it. By hand:
`python -m tests.controlplane build|up|status|path`.
"""

"""Addresses and credentials: from a kubeconfig or a service account to a `Connection`.

`kubeconfig` merges files as kubectl does and `kubeconfig_fields` reports errors in them. `credentials` reads tokens and
certificates again as they change; `exec_plugin` runs a credential plugin. `urls` checks server addresses.
"""

"""Parts of situate's HTTPS servers.

`listener` opens a port with limits. `access` authenticates and authorizes callers. `status_answers` formats refusals as
Kubernetes does. Each product defines its answers.
"""

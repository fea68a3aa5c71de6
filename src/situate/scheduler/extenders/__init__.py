"""Scheduler extenders over HTTP, as kube-scheduler calls them: `messages` is the JSON, `client` sends it."""

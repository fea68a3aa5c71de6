"""SHELL: the client for the Kubernetes API: transport, authentication, watch, store, leader election, Events."""

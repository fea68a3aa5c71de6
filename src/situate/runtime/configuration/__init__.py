"""The configuration of a process: one YAML file, the environment, and flags.

`file` reads and merges them into typed sections. `shared_settings` holds the keys that every product shares. `reload`
follows the file while the process runs and keeps the last valid configuration.
"""

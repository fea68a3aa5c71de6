"""Configuration of the vm scheduler, with defaults.

The folder takes the parsed `vm:` section, or the JSON file of neondatabase/autoscaling's scheduler plugin.
The result is a checked settings object, which creates the `Rules` that every decision reads.
Read `settings` first, then `neon_settings`, which accepts the file of that plugin.
"""

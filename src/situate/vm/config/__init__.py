"""Configuration of the vm scheduler, with defaults.

The folder takes the parsed `vm:` section, or the JSON file of neondatabase/autoscaling's scheduler plugin.
The result is one checked settings object, `VmSettings`. Every decision reads it, as `situate.vm.model.policy.Rules`.
Read `settings` first, then `neon_settings`, which accepts the file of that plugin.
"""

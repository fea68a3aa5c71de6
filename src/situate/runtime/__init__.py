"""SHELL: what keeps a controller running: manager, work queue, actuator, health, metrics, configuration."""

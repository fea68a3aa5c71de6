"""Chapters on vm: a VM grows, another VM is live-migrated to free capacity, and the capacity stays reserved."""

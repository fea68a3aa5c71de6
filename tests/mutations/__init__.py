"""Takes one safety guard out of the code at a time, and demands that a test notices: `python -m tests.mutations`."""

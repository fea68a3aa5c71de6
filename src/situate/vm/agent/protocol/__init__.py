"""Messages and objects that the agent exchanges with other processes, without I/O.

The functions take text, JSON or API objects, and return values. An invalid input becomes a value that names the error.
Other functions create the request bodies and patches that the agent sends.
Read `machines` first (VirtualMachines and their size), then `samples` (load metrics of guests and caches).
`permits` defines requests to the scheduler. `monitor_protocol` defines the messages of the monitor in the guest.
"""

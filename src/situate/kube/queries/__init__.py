"""Calls that ask the API server about itself and about callers.

`discovery` lists the served resources, `server_version` reads the version, and `reviews` checks tokens and permissions.
"""

"""Implement `situate sharding`: custom resources on executors, and an archive of completed ones.

Begin at `commands`.
"""

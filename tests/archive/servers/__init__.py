"""Real servers for the stores of the archive: an S3 server that Go builds, and one that speaks MongoDB's protocol.

`python -m tests.archive.servers` builds what has to be built.
"""

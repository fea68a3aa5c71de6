"""Records as objects of a bucket on any S3-compatible server; the extra `s3` installs the client.

`archiver` implements the protocol. `settings` reads bucket, address and credentials from the URL and the environment.
`keys` maps records and queries to keys. `objects` reads and writes single objects; `uploads` removes abandoned
multipart uploads with requests that `signing` signs.
"""

"""Operations over whole archives: copy, verify, prune, and read through to the cluster.

`walk` yields all records of a query, page by page, and the others build on it: `migration` copies records to another
archive, `verification` checks every digest, and `retention` deletes records whose retention period has ended.
`object_reader` reads objects from the cluster if they are live, and from the archive if they are not.
"""

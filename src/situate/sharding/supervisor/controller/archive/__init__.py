"""The archive queue of the leader: it stores completed objects in the archive and deletes them.

Input: objects that are due, and the archive. Output: records in the archive, and deleted objects.
Read `queue` first: its workers follow `situate.sharding.assignment.archive_steps` for each object.
`steps` performs one step: a call of the API server or of the archive.
`owner_order` archives dependents before their owner, because a deletion of the owner would delete them too.
`restore` is the way back: it creates an object again from its record.
"""

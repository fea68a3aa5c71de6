"""Partitions: which objects belong to each supervisor, by ranges or slots of a 64-bit hash.

Input: the UID, namespace or name of an object, and a partition or table. Output: whether a supervisor owns the object.
Read `hashing` (the hashes) and `partitions` (N equal, static ranges) first.
Then read `slots` (the elastic table of 4096 slots), `repartition` (changes of owners) and `slot_tables`.
`slot_tables` keeps the newest table and the confirmed table of a supervisor. `ownership` tests one object.
`hash_ring` assigns keys to members by hash alone. `hash_arrays` hashes many keys at once with NumPy.
"""

"""The supervisor: the leader that assigns the objects of one partition to executors and archives them.

Input: objects, executors' Leases and Pods, and the table of partitions. Output: assignments, drains, records, a report.
Read `scope` first: it names the objects, the executors, the partition and the Leases of one supervisor.
Then read `report`: the text in which the leader describes itself on its Lease, for autoscalers and commands.
Last, read `controller`, which watches, decides with `situate.sharding.assignment`, and writes.
"""

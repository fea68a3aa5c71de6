"""The shell of sharding: what watches, writes, keeps leases and runs handlers. Deciding is left to the files above."""

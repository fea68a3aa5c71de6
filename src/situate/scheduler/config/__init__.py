"""The `scheduler:` section (`settings`), and the profiles, queue, Lease and rates that follow from it (`setup`)."""

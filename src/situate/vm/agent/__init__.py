"""The autoscaler-agent's side: how large a machine should be, and whom to ask before it is (C35 to C40)."""

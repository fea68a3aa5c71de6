"""`situate spot`: which Pods are on demand, why, what would be moved and at what cost; and ungating Pods."""

"""Implement `situate spot`: which Pods are on demand and why, planned moves and their cost; and ungating Pods."""

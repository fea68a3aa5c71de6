"""Pods that wait for a place (upstream pkg/scheduler/backend/queue): active, backing off, or unschedulable."""

"""Queue of pending Pods (upstream pkg/scheduler/backend/queue): active, backing off, or unschedulable."""

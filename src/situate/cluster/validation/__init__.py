"""What the API server requires of built-in objects beyond their types."""

"""Which test proves which numbered rule: read from the marks, written to docs/contributing/rules.md."""

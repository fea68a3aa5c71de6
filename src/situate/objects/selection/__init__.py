"""Selectors as text and as fields of objects: `label_selectors` and `field_selectors`."""

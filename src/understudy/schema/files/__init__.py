"""Schema files: reading and writing YAML with errors that point at a line."""

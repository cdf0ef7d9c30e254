"""The specification of a release: its file, its parts, its budget and its criteria."""

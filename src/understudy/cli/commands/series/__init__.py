"""A series of releases: the next one from the last, and two side by side."""

"""A release tried out on public stand-in tables before the real one is read."""

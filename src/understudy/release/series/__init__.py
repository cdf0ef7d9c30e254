"""A series of releases of tables about the same people: what it costs, last year's bundle put to use, and what has changed."""

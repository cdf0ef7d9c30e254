"""The false-alarm rate of every statistical assertion."""

ALPHA = 1e-9  # per assertion; a thousand of them still alarm falsely once in a million runs

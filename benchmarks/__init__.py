"""The benchmarks behind the tables in the documentation. `python -m benchmarks` runs their quick forms."""

"""STEPS: rows sorted into subsets of binary columns, then drawn within them."""

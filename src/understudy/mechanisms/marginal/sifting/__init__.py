"""What sift is made of: which marginals are worth their noise, the model while it is learnt, and sums of signs of columns of two values."""

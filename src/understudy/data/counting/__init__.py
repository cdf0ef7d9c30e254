"""One encoder and one counter: batches of values in, codes and exact counts out."""

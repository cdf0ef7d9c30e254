"""The ledger: a file of every charge, chained by hashes, with its checks and anchors."""

"""Keys, signatures and approvals."""

"""What a loop of attempts costs, the slack test, and the odds that documents state."""

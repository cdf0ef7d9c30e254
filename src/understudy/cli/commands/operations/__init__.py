"""Commands for those who run Understudy for others."""

"""What events cost: pure, zCDP and GDP accountings, conversions, filters and subsampling."""

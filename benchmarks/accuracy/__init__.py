"""How far synthetic tables are from the real ones, method by method and beside other tools."""

"""Hierarchies and lists that come with the program: codes and their groups, facts of public classifications."""

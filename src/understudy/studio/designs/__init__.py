"""Designs: specifications that are still being discussed, their controls, and what follows from them."""

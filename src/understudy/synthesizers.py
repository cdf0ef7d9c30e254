"""The name that :mod:`understudy.mechanisms` had in version 0.1. Its public names are found there, with a warning."""

from understudy._deprecation import forwarded

__getattr__ = forwarded("understudy.synthesizers", "understudy.mechanisms", since="0.2", until="0.4")

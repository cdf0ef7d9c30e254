"""Synthetic tables larger than memory, written by several processes into a folder that is complete or absent."""

from understudy.bulk.staging import is_folder, unfinished
from understudy.bulk.writing import WrittenSample, check_partitions, part_name, write_sample

__all__ = ["WrittenSample", "check_partitions", "is_folder", "part_name", "unfinished", "write_sample"]

"""The 100,000-row ACS13 sample as schema, codes and groups; shared by the deniability benchmark and its tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from understudy.schema import Categorical, Integer, Schema

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "acs13_sgf"


def load(folder: Path = FOLDER) -> tuple[pd.DataFrame, Schema, dict[str, list[int]]]:
    """Return the table (codes from 1, as published), its schema, and the published groups of parents."""
    frame = pd.read_csv(folder / "acs13_stats.csv.gz", skipinitialspace=True)
    sizes = {
        line.split(",")[0]: len(line.split(",")) - 1
        for line in (folder / "acs13_attrs.csv").read_text().split()
    }
    groups = {}
    for name, line in zip(sizes, (folder / "acs13_grps.csv").read_text().split(), strict=True):
        given = [int(value) for value in line.split(",")]
        groups[name] = given + [given[-1]] * (sizes[name] - len(given))
    columns = [
        Integer(name, minimum=1, maximum=size)
        if name in ("age", "hpw")
        else Categorical(name, values=tuple(range(1, size + 1)))
        for name, size in sizes.items()
    ]
    return frame, Schema(columns=tuple(columns), name="acs13"), groups


def codes(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Return the records as an array of codes."""
    encoded = schema.encode_frame(frame)
    return np.stack([encoded[name] for name in schema.names], axis=1).astype(np.int64)

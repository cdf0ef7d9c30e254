"""A simulated table of ten columns, written in chunks as a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from understudy.schema import Boolean, Categorical, Integer, Ordinal, Real, Schema

CHUNK = 2_000_000
REGIONS = tuple(f"region {i:02d}" for i in range(16))
STATUS = ("single", "married", "divorced", "widowed", "other")
EDUCATION = tuple(f"level {i}" for i in range(8))

SCHEMA = Schema(
    columns=(
        Categorical("region", values=REGIONS),
        Boolean("urban"),
        Integer("age", minimum=0, maximum=99, bins=20),
        Categorical("status", values=STATUS),
        Ordinal("education", values=EDUCATION),
        Real("income", minimum=0, maximum=200_000, bins=16, out_of_domain="clamp"),
        Integer("household", minimum=1, maximum=8),
        Integer("month", minimum=1, maximum=12),
        Boolean("smokes"),
        Integer("visits", minimum=0, maximum=24, out_of_domain="clamp"),
    ),
    name="simulated population",
)


def rows(n: int, generator: np.random.Generator) -> Any:
    """Draw records whose columns depend on each other."""
    import pyarrow as pa

    region = np.minimum(generator.geometric(0.15, n) - 1, 15)
    urban = generator.random(n) < 0.25 + 0.04 * region
    age = np.clip(generator.normal(42 - 8 * urban, 21, n), 0, 99).astype(np.int32)
    status = np.clip((age // 25) + generator.integers(-1, 2, n), 0, 4)
    education = np.clip(generator.normal(3 + 2 * urban - age / 60, 1.5, n), 0, 7).astype(np.int8)
    income = generator.gamma(2.0, 9_000.0 * (1 + education / 3))
    household = np.clip(generator.poisson(2.5 - (status == 3), n) + 1, 1, 8).astype(np.int32)
    smokes = generator.random(n) < 0.35 - 0.03 * education
    visits = generator.poisson(1 + age / 20 + 2 * smokes).astype(np.int32)

    def text(codes: Any, labels: tuple[str, ...]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(labels)).cast(
            pa.string()
        )

    return pa.table(
        {
            "region": text(region, REGIONS),
            "urban": urban,
            "age": age,
            "status": text(status, STATUS),
            "education": text(education, EDUCATION),
            "income": income,
            "household": household,
            "month": generator.integers(1, 13, n, np.int32),
            "smokes": smokes,
            "visits": visits,
        }
    )


def write(folder: Path, n: int, *, seed: int = 0, persons: int | None = None) -> None:
    """Write ``n`` records as files of at most two million rows, compressed with zstd; with a column ``person`` if there are so many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, n, CHUNK)):
        generator = np.random.default_rng([seed, number])
        chunk = rows(min(CHUNK, n - start), generator)
        if persons is not None:
            ids = generator.integers(0, persons, chunk.num_rows)
            chunk = chunk.append_column("person", pa.array(ids))
        pq.write_table(
            chunk, folder / f"part-{number:05d}.parquet", compression="zstd", row_group_size=1 << 18
        )

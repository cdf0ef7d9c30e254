"""The public tables that benchmarks measure on, and their workloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from understudy.data import LocalTable
from understudy.datasets.schema_tables import simulated_codes
from understudy.errors import DataError, WorkloadError
from understudy.marginals import Workload, all_kway, skewed, target
from understudy.schema import Domain, Integer, Schema

PLACES = (Path("../shared/data"), Path(__file__).resolve().parents[2] / "shared" / "data")
WORKLOADS = ("all-3way", "target", "skewed")
ORIGIN = (
    "They are not part of the package, and nothing is downloaded. The tables of paper AIM are public, coded as whole numbers, with their domains: adult in github.com/ryan112358/private-pgm "
    "(data/), msnbc, fire and nltcs in github.com/ryan112358/nist-synthetic-data-2021 (extensions/datasets/), salary and titanic in github.com/Miguel-Fuentes/JAM_AiStats "
    "(data/). Put each where benchmarks/_tables.py names it, such as adult/adult.csv.gz."
)


@dataclass(frozen=True)
class Source:
    """Where a table is, and the column of its target workload (chosen once, at random where none is natural)."""

    table: str
    domain: str
    target: str
    read: Callable[[Path], tuple[pd.DataFrame, dict[str, int]]] | None = None
    columns: int | tuple[str, ...] | None = None
    """Keep these columns, or so many, evenly spaced among all."""


def _acs13(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """Codes by position in the list of legal values, which comes with the table."""
    legal = {}
    for line in (folder / "acs13_sgf/acs13_attrs.csv").read_text().splitlines():
        name, *values = [word.strip() for word in line.split(",")]
        legal[name] = sorted({int(value) for value in values if value})
    raw = pd.read_csv(folder / "acs13_sgf/acs13_stats.csv.gz", skipinitialspace=True).astype(int)
    frame = pd.DataFrame({name: np.searchsorted(legal[name], raw[name]) for name in raw.columns})
    return frame, {name: len(legal[name]) for name in raw.columns}


def _natality(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """Fixed bins: years of age, births, weeks, sex, quarter kilograms, months."""
    raw = pd.read_csv(folder / "natality/birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz")
    sizes = {"age": 44, "parity": 15, "week": 30, "female": 2, "weight": 26, "month": 12}
    codes = {
        "age": raw.mother_age - 12,
        "parity": raw.parity - 1,
        "week": raw.gestation_week - 20,
        "female": raw.is_female.astype(int),
        "weight": raw.birth_weight // 250,
        "month": pd.to_datetime(raw.date_of_birth).dt.month - 1,
    }
    return pd.DataFrame({name: codes[name].clip(0, size - 1) for name, size in sizes.items()}), sizes


_BINS = 16


def _coded(folder: Path, path: str, separator: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Read a raw table: categories as codes, numbers in sixteen parts of equal numbers of rows, missing values as a code of their own."""
    raw = pd.read_csv(folder / path, sep=separator)
    codes = {}
    for name in raw:
        column = raw[name]
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > _BINS:
            parts = pd.qcut(column, _BINS, labels=False, duplicates="drop").fillna(_BINS).to_numpy(np.int64)
            codes[str(name)] = np.unique(parts, return_inverse=True)[1]
        else:
            codes[str(name)] = pd.factorize(column.fillna("missing"), sort=column.dtype != object)[0]
    return pd.DataFrame(codes), {name: max(2, int(found.max()) + 1) for name, found in codes.items()}


def _bank(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    return _coded(folder, "bank_marketing/bank-full.csv.gz", ";")


def _hmeq(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    return _coded(folder, "hmeq/hmeq.csv", ",")


TABLES = {
    "adult": Source("adult/adult.csv.gz", "adult/adult-domain.json", "income>50K"),
    "salary": Source("salary/salary_32bin.csv.gz", "salary/salary_32bin-domain.json", "pay-rate"),
    "msnbc": Source("msnbc/msnbc.csv.gz", "msnbc/msnbc-domain.json", "site_8"),
    "fire": Source("fire/fire.csv.gz", "fire/fire-aim15-domain.json", "Unit Type"),
    "nltcs": Source("nltcs/nltcs.csv", "nltcs/nltcs-domain.json", "laundry"),
    "titanic": Source("titanic/titanic_32bin.csv", "titanic/titanic_32bin-domain.json", "Survived"),
}
DEVELOPMENT = {
    "br2000": Source("privmrf_br2000/br2000.csv.gz", "privmrf_br2000/br2000-domain.json", "0"),
    "acs": Source("privmrf_acs/acs.csv.gz", "privmrf_acs/acs-domain.json", "0"),
    "acs13": Source("acs13_sgf/acs13_stats.csv.gz", "acs13_sgf/acs13_attrs.csv", "incc", _acs13),
    "natality": Source(
        "natality/birth_2019_nber_us_SINGLETON_SAMPLE160K.csv.gz",
        "natality/columns.json",
        "weight",
        _natality,
    ),
}
"""Tables on which defaults are chosen, so that the ones above stay unseen."""
WIDE = {
    "adult15": Source(
        "adult/adult_aim15_derived.csv.gz", "adult/adult_aim15_derived-domain.json", "income>50K"
    ),
    "adult6": Source(
        "adult/adult_aim15_derived.csv.gz",
        "adult/adult_aim15_derived-domain.json",
        "income>50K",
        columns=("workclass", "education", "marital-status", "relationship", "sex", "income>50K"),
    ),
    "br9": Source(
        "privmrf_br2000/br2000.csv.gz",
        "privmrf_br2000/br2000-domain.json",
        "0",
        columns=("0", "1", "5", "6", "7", "8", "9", "11", "13"),
    ),
    "adult8": Source(
        "adult/adult_aim15_derived.csv.gz",
        "adult/adult_aim15_derived-domain.json",
        "income>50K",
        columns=(
            "age",
            "workclass",
            "education",
            "occupation",
            "race",
            "sex",
            "hours-per-week",
            "income>50K",
        ),
    ),
    "br6": Source(
        "privmrf_br2000/br2000.csv.gz",
        "privmrf_br2000/br2000-domain.json",
        "1",
        columns=("1", "2", "3", "4", "10", "12"),
    ),
    "bank": Source("bank_marketing/bank-full.csv.gz", "bank_marketing/columns.json", "y", _bank),
    "hmeq": Source("hmeq/hmeq.csv", "hmeq/columns.json", "BAD", _hmeq),
    "loans20": Source("loans/loans.csv.gz", "loans/loans-domain.json", "loan_status", columns=20),
    "stroke50": Source("stroke/stroke.csv.gz", "stroke/stroke-domain.json", "AGE", columns=50),
    "stroke20": Source("stroke/stroke.csv.gz", "stroke/stroke-domain.json", "AGE", columns=20),
}
"""More columns, fewer, or other bins than the ones above have."""
ALL = TABLES | DEVELOPMENT | WIDE


def find_data(folder: Path | None) -> Path:
    """Return the folder of tables, or say where it was looked for."""
    for place in PLACES if folder is None else (folder,):
        if place.is_dir():
            return place.resolve()
    looked = " or ".join(str(place) for place in (PLACES[:1] if folder is None else (folder,)))
    raise DataError(
        f"There are no benchmark tables in {looked}. Say where they are with --data DIR. {ORIGIN}"
    )


TWO_VALUED = "-two"
"""``NAME-two`` is the table with every column cut to two values."""
SIMULATED = "simulated"
"""A made-up table of columns of two values, of which ``@ROWS`` may say how many rows there are."""
_SIMULATED_COLUMNS, _SIMULATED_ROWS = 10, 10_000


def _simulated(rows: int) -> LocalTable:
    """Return made-up records of columns of two values, always the same."""
    columns = tuple(Integer(f"c{number}", minimum=0, maximum=1) for number in range(_SIMULATED_COLUMNS))
    schema = Schema(columns=columns, name=SIMULATED)
    codes = simulated_codes(schema, rows, seed=1)
    return LocalTable(schema, {name: np.asarray(codes[name], dtype=np.uint8) for name in schema.names})


def cut_to_two(table: LocalTable) -> LocalTable:
    """Return a table whose columns say whether a code lies above the one that divides the rows most evenly."""
    (codes,) = table.chunks(rows=max(1, table.exact_row_count()))
    made = {}
    for name, column in codes.items():
        below = np.cumsum(np.bincount(column)) / len(column)
        made[name] = (column > int(np.argmin(np.abs(below - 0.5)))).astype(np.uint8)
    columns = tuple(Integer(name, minimum=0, maximum=1) for name in made)
    return LocalTable(Schema(columns=columns, name=f"{table.schema.name}{TWO_VALUED}"), made)


def load(name: str, folder: Path) -> LocalTable:
    """Read one table with its published domain; ``NAME@ROWS`` draws that many rows of it, always the same, and ``NAME-two`` cuts its columns to two values."""
    name, _, rows = name.partition("@")
    if name == SIMULATED:
        return _simulated(int(rows or _SIMULATED_ROWS))
    if name.endswith(TWO_VALUED):
        return cut_to_two(load(name.removesuffix(TWO_VALUED) + (f"@{rows}" if rows else ""), folder))
    if rows:
        whole = load(name, folder)
        (codes,) = whole.chunks(rows=max(1, whole.exact_row_count()))
        chosen = np.random.default_rng(0).choice(whole.exact_row_count(), int(rows), replace=False)
        return LocalTable(whole.schema, {key: np.ascontiguousarray(codes[key][chosen]) for key in codes})
    source = ALL[name]
    missing = [part for part in (source.table, source.domain) if not (folder / part).exists()]
    if missing:
        raise DataError(f"The table {name} needs {' and '.join(missing)} in {folder}. {ORIGIN}")
    if source.read is not None:
        frame, sizes = source.read(folder)
    else:
        sizes = json.loads((folder / source.domain).read_text())
        if source.columns is not None:
            sizes = {name: sizes[name] for name in _kept(list(sizes), source.columns)}
        frame = pd.read_csv(folder / source.table)[list(sizes)]
    columns = tuple(Integer(column, minimum=0, maximum=size - 1) for column, size in sizes.items())
    codes = {
        column: np.ascontiguousarray(frame[column], dtype=np.min_scalar_type(size - 1))
        for column, size in sizes.items()
    }
    return LocalTable(Schema(columns=columns, name=name), codes)


def _kept(names: list[str], columns: int | tuple[str, ...]) -> Sequence[str]:
    """Return the named columns, or so many, evenly spaced."""
    if not isinstance(columns, int):
        return columns
    return [names[place] for place in np.linspace(0, len(names) - 1, columns).round().astype(int)]


def workload_of(domain: Domain, table: str, name: str) -> Workload:
    """Return one of the three workloads of paper AIM, section 6.1."""
    if name == "all-3way":
        return all_kway(domain, 3)
    if name == "target":
        return target(domain, ALL[table].target)
    if name == "skewed":
        return skewed(domain)
    raise WorkloadError(f"No benchmark workload named {name!r}. Known: {', '.join(WORKLOADS)}.")

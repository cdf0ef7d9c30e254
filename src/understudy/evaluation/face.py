"""What an attacker with declared means gains: exact matches, attribute and membership inference, each with its baseline.

None of these proves privacy: an attack that fails shows that *this* attack failed. The guarantee of a release is
its ledger. In particular the distance of synthetic records to their closest real record, popular as it is, proves
nothing either way, and is not computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.comparison import Codes, Comparison
from understudy.evaluation.result import Result
from understudy.schema import Schema

# ----------------------------------------------------------------------------------------
# What the synthetic table looks like on its face: unique records, k-anonymity, l-diversity, broken rules.


def constraint_violations(both: Comparison) -> Result:
    """Return the share of synthetic records that break each record constraint of the schema."""
    codes = {name: both.synthetic_codes[:, index] for index, name in enumerate(both.domain.names)}
    values = {
        str(rule): float((~rule.holds_codes(codes)).mean()) if len(both.synthetic_codes) else 0.0
        for rule in both.schema.constraints
    }
    return Result("share of records that break a constraint", values, better="lower")


def unique_records(both: Comparison) -> Result:
    """Return the share of records that are alone in their table, synthetic and real."""
    values = {}
    for name, codes in (("synthetic", both.synthetic_codes), ("real", both.real_codes)):
        sizes = class_sizes(codes, range(codes.shape[1]))
        values[name] = float((sizes == 1).mean()) if len(codes) else 0.0
    return Result("share of unique records", values, better="lower")


def k_anonymity(schema: Schema, codes: Codes, columns: Sequence[str]) -> int:
    """Return the size of the smallest group of records that agree on some columns; zero for an empty table.

    Examples
    --------
    >>> schema = Schema.parse("columns: [{name: a, kind: boolean}, {name: b, kind: boolean}]")
    >>> k_anonymity(schema, np.array([[0, 0], [0, 1], [1, 1]]), ["a"])
    1
    """
    sizes = class_sizes(codes, [schema.domain.index(name) for name in columns])
    return int(sizes.min(initial=len(codes))) if len(codes) else 0


def l_diversity(schema: Schema, codes: Codes, columns: Sequence[str], sensitive: str) -> int:
    """Return the smallest number of values of the sensitive column in a group that agrees on some columns."""
    if sensitive in columns:
        raise WorkloadError(f"The sensitive column {sensitive!r} cannot be one of the grouping columns.")
    if not len(codes):
        return 0
    group = group_numbers(codes, [schema.domain.index(name) for name in columns])
    pairs = np.unique(np.stack([group, codes[:, schema.domain.index(sensitive)]], axis=1), axis=0)
    return int(np.bincount(pairs[:, 0]).min())


def face_privacy(both: Comparison, *, columns: Sequence[str], sensitive: str | None = None) -> Result:
    """Return k-anonymity and, with a sensitive column, l-diversity of both tables over some columns.

    Properties of a table's face: they say how it looks to a reader, not how private it is.
    """
    values: dict[str, float] = {}
    for name, codes in (("synthetic", both.synthetic_codes), ("real", both.real_codes)):
        values[f"k of the {name} table"] = k_anonymity(both.schema, codes, columns)
        if sensitive is not None:
            values[f"l of the {name} table"] = l_diversity(both.schema, codes, columns, sensitive)
    return Result("k-anonymity and l-diversity", values, better="higher")


def group_numbers(codes: Codes, places: Sequence[int]) -> Codes:
    """Number the combinations of some columns that occur, and return the number of each record."""
    if not len(places):
        return np.zeros(len(codes), dtype=np.int64)
    number = np.zeros(len(codes), dtype=np.int64)
    for place in places:
        # renumbering after each column keeps the numbers below the number of records
        joined = number * (int(codes[:, place].max(initial=0)) + 1) + codes[:, place]
        _, number = np.unique(joined, return_inverse=True)
        number = number.ravel().astype(np.int64)
    return number


def class_sizes(codes: Codes, places: Sequence[int]) -> Codes:
    """Return, for each record, how many records agree with it on some columns."""
    group = group_numbers(codes, places)
    sizes: Codes = np.bincount(group)[group] if len(group) else np.zeros(0, dtype=np.int64)
    return sizes


def exact_matches(both: Comparison, holdout: Codes | None = None) -> Result:
    """Return the share of synthetic records that equal a real one, beside the same share of held-out records.

    Common records coincide by chance: real records that had no part in the synthesis show how often.
    """
    values = {"synthetic": _share_in(both.synthetic_codes, both.real_codes)}
    if holdout is not None:
        values["held-out records"] = _share_in(holdout, both.real_codes)
    return Result("share of records equal to a real one", values, better="lower")


def _share_in(records: Codes, table: Codes) -> float:
    if not len(records) or not len(table):
        return 0.0
    numbers = group_numbers(np.concatenate([records, table]), range(table.shape[1]))
    return float(np.isin(numbers[: len(records)], numbers[len(records) :]).mean())


def attribute_inference(
    both: Comparison, *, known: Sequence[str], secret: str, holdout: Codes | None = None
) -> Result:
    """Return how often an attacker guesses one column from others with nothing but the synthetic table.

    *The adversary* knows the columns ``known`` of a person and guesses the most frequent value of ``secret`` among
    the synthetic records that agree on them, or else the most frequent value overall. The guesses are made for real
    records (``real``) and, where given, for held-out ones (``held-out``): what is right about both is
    knowledge of the population, and only the difference can be due to a person's own record. ``blind`` always
    guesses the most frequent value.
    """
    if secret in known or not known:
        raise WorkloadError(
            "Attribute inference needs known columns, and a secret column that is not among them."
        )
    places = [both.domain.index(name) for name in known]
    at = both.domain.index(secret)
    made = both.synthetic_codes
    both.require_rows()
    size = both.domain.size(secret)
    common = int(np.bincount(made[:, at], minlength=size).argmax())
    targets = {"real": both.real_codes} | ({} if holdout is None else {"held-out": holdout})
    values = {}
    for name, people in targets.items():
        numbers = group_numbers(np.concatenate([made, people]), places)
        groups = int(numbers.max(initial=-1)) + 1
        votes = np.bincount(numbers[: len(made)] * size + made[:, at], minlength=groups * size)
        best = votes.reshape(groups, size)
        guess = np.where(best.sum(axis=1) > 0, best.argmax(axis=1), common)
        values[name] = float((guess[numbers[len(made) :]] == people[:, at]).mean())
    values["blind"] = float((both.real_codes[:, at] == common).mean())
    return Result(f"guessing {secret} from {', '.join(known)}", values, better="lower")


def membership_inference(both: Comparison, holdout: Codes, *, seed: int = 0) -> Result:
    """Return how well an attacker tells records that were in the real table from records that were not.

    *The adversary* has the synthetic table, a person's full record, and nothing else; the score of a record is the
    frequency of its combinations of one, two and three columns among the synthetic records, each relative to the
    frequency in a reference half of the held-out records. Members and the other half of the held-out records are
    compared in equal numbers. ``advantage`` is the largest difference of true and false positive rate, ``auc`` the area
    under the curve; chance is 0 and 0.5. On few records the advantage is positive by chance alone.
    """
    if len(holdout) < 20 or len(both.real_codes) < 20:
        raise WorkloadError("Membership inference needs at least 20 real and 20 held-out records.")
    generator = np.random.default_rng(seed)
    shuffled = holdout[generator.permutation(len(holdout))]
    reference, outsiders = np.array_split(shuffled, 2)
    rows = min(len(outsiders), len(both.real_codes), 5_000)
    members = both.real_codes[generator.permutation(len(both.real_codes))[:rows]]
    outsiders = outsiders[:rows]
    scores = _frequency_scores(
        np.concatenate([members, outsiders]), both.synthetic_codes, reference, generator
    )
    order = np.argsort(-scores, kind="stable")
    truth = np.repeat([1, 0], [len(members), len(outsiders)])
    ranked = scores[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # equal scores are accepted together
    hits = np.cumsum(truth[order])[last] / len(members)
    false = np.cumsum(1 - truth[order])[last] / len(outsiders)
    area = float(np.trapezoid(np.append(0.0, hits), np.append(0.0, false)))
    return Result(
        "membership inference",
        {"advantage": max(0.0, float((hits - false).max())), "auc": area},
        better="lower",
    )


def _frequency_scores(
    records: Codes, synthetic: Codes, reference: Codes, generator: np.random.Generator
) -> np.ndarray:
    """Return average log ratios of synthetic to reference frequencies over random sets of columns."""
    width = records.shape[1]
    scores = np.zeros(len(records))
    sets = [(place,) for place in range(width)]
    for size in (2, 3):
        if width >= size:
            sets += [
                tuple(sorted(generator.choice(width, size, replace=False).tolist())) for _ in range(3 * width)
            ]
    for places in dict.fromkeys(sets):
        numbers = group_numbers(np.concatenate([records, synthetic, reference]), places)
        groups = int(numbers.max(initial=-1)) + 1
        ends = np.cumsum([len(records), len(synthetic)])
        own, made, other = np.split(numbers, ends)
        in_made = (np.bincount(made, minlength=groups) + 0.5) / (len(made) + 0.5 * groups)
        in_other = (np.bincount(other, minlength=groups) + 0.5) / (len(other) + 0.5 * groups)
        scores += np.log(in_made[own] / in_other[own])
    return scores / max(1, len(sets))

"""What an attacker with declared means gains: exact matches, attribute and membership inference, each with its baseline.

None of these proves privacy: an attack that fails shows that *this* attack failed. The guarantee of a release is
its ledger. In particular the distance of synthetic records to their closest real record, popular as it is, proves
nothing either way, and is not computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.errors import WorkloadError
from understudy.evaluation.codes import Codes
from understudy.evaluation.comparison import Comparison
from understudy.evaluation.face import group_numbers
from understudy.evaluation.result import Result


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

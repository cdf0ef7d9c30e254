"""How a set of measurements came about: what was fixed in advance, what was chosen, and from what.

Error bounds need more than the measurements themselves. A measurement whose clique was chosen after
looking at earlier noise is not exchangeable with one that was planned; and that a marginal was *not*
chosen says something about its error. This module keeps exactly what the bounds use, all of it released
values and public facts, in a form small enough for the model file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.errors import DomainTooLarge, ModelFileError
from understudy.marginals import Measurement
from understudy.marginals.measurement import NoiseKind
from understudy.schema import Clique, Domain

Answers = Callable[[Sequence[Clique]], list[npt.NDArray[np.float64]]]


def answer_each(answers: Answers, cliques: Sequence[Clique]) -> dict[Clique, npt.NDArray[np.float64]]:
    """Ask a model for many marginals, leaving out those that are too large for it to compute."""
    try:
        return dict(zip(cliques, answers(cliques), strict=True)) if cliques else {}
    except DomainTooLarge:
        if len(cliques) == 1:
            return {}
        half = len(cliques) // 2
        return {**answer_each(answers, cliques[:half]), **answer_each(answers, cliques[half:])}


@dataclass(frozen=True, eq=False)
class Round:
    """What one adaptive round released, and the public facts its error bounds need.

    The round chose ``clique`` among ``candidates`` by the exponential mechanism with score
    ``weight (|M(D) - M(model)|_1 - penalty · cells)``, and then measured it.

    Parameters
    ----------
    clique, weight
        What was chosen, and its weight in the score.
    answer
        The model's counts over it before the round, in single precision.
    measurement
        What was measured.
    epsilon
        Privacy parameter of the choice.
    candidates
        What could have been chosen; a function of earlier releases.
    largest_weight
        Largest weight of a candidate.
    penalty
        What the score subtracts for each cell, in rows.
    l1
        Most that one protected unit changes a marginal, in L1.
    last
        Whether it was known before the round that no other would follow.
    """

    clique: Clique
    answer: npt.NDArray[np.floating[Any]]
    measurement: Measurement
    epsilon: float
    candidates: tuple[Clique, ...]
    weight: float
    largest_weight: float
    penalty: float
    l1: float
    last: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "answer", np.asarray(self.answer, dtype=np.float32))


@dataclass(frozen=True)
class Standing:
    """Where a candidate stood when it could last be chosen.

    Attributes
    ----------
    clique, weight
        The candidate and its weight.
    round
        Index of the last round in which it could be chosen.
    drift
        L1 distance, in rows, between the final model's marginal and the one that round was judged by.
    """

    clique: Clique
    weight: float
    round: int
    drift: float


@dataclass(frozen=True, eq=False)
class Certificate:
    """Noisy L1 errors of the final model on some marginals, paid for after the fit.

    Attributes
    ----------
    cliques
        The marginals.
    values
        ``|M(D) - M(model)|_1`` plus noise, in rows, one per clique.
    noise, scale
        Family and scale of the noise, in rows.
    """

    cliques: tuple[Clique, ...]
    values: npt.NDArray[np.float64]
    noise: NoiseKind
    scale: float


@dataclass(frozen=True, eq=False)
class History:
    """The story behind a list of measurements.

    Parameters
    ----------
    batches
        How many measurements each step made, in their order. What a step measured, and with which noise,
        was fixed by what earlier steps released. A mechanism that plans everything has one batch.
    rounds
        The adaptive rounds; each is a batch of one, at the end of the list.
    standings
        For candidates of the rounds: when they could last be chosen.
    certificate
        Errors measured after the fit, if any were.

    Examples
    --------
    >>> History.planned(12).batches
    (12,)
    >>> History.unknown(3).batches
    (1, 1, 1)
    """

    batches: tuple[int, ...]
    rounds: tuple[Round, ...] = ()
    standings: tuple[Standing, ...] = ()
    certificate: Certificate | None = None

    @classmethod
    def planned(cls, count: int) -> History:
        """Return the history of measurements that were all fixed in advance."""
        return cls((count,))

    @classmethod
    def unknown(cls, count: int) -> History:
        """Return a history that assumes nothing: each measurement may depend on all earlier ones."""
        return cls((1,) * count)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return a JSON-able description and named arrays, for the model file."""
        cliques = list(
            dict.fromkeys(
                [item for step in self.rounds for item in step.candidates]
                + [step.clique for step in self.rounds]
                + [item.clique for item in self.standings]
                + list(self.certificate.cliques if self.certificate else ())
            )
        )
        place = {clique: index for index, clique in enumerate(cliques)}
        meta: dict[str, Any] = {
            "batches": list(self.batches),
            "cliques": [list(clique) for clique in cliques],
            "rounds": [
                {
                    "clique": place[step.clique],
                    "epsilon": step.epsilon,
                    "weight": step.weight,
                    "largest_weight": step.largest_weight,
                    "penalty": step.penalty,
                    "l1": step.l1,
                    "last": step.last,
                }
                for step in self.rounds
            ],
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "standing-clique": np.array([place[item.clique] for item in self.standings], dtype=np.int64),
            "standing-round": np.array([item.round for item in self.standings], dtype=np.int64),
            "standing-weight": np.array([item.weight for item in self.standings], dtype=np.float64),
            "standing-drift": np.array([item.drift for item in self.standings], dtype=np.float64),
        }
        for index, step in enumerate(self.rounds):
            arrays[f"answer-{index}"] = step.answer
            arrays[f"candidates-{index}"] = np.array(
                [place[item] for item in step.candidates], dtype=np.int32
            )
        if self.certificate is not None:
            meta["certificate"] = {
                "cliques": [place[item] for item in self.certificate.cliques],
                "noise": self.certificate.noise,
                "scale": self.certificate.scale,
            }
            arrays["certificate"] = self.certificate.values
        return meta, arrays

    @classmethod
    def from_arrays(
        cls,
        domain: Domain,
        measurements: Sequence[Measurement],
        meta: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
    ) -> History:
        """Rebuild what :meth:`to_arrays` described, checking it against the measurements."""
        try:
            batches = tuple(int(item) for item in meta["batches"])
            cliques = [domain.canonical(item) for item in meta["cliques"]]
            count = len(meta["rounds"])
            if sum(batches) != len(measurements) or min(batches, default=1) < 1 or count > len(measurements):
                raise ModelFileError("The history of the model does not fit its measurements.")
            rounds = tuple(
                _round(domain, measurements[len(measurements) - count + index], item, index, cliques, arrays)
                for index, item in enumerate(meta["rounds"])
            )
            parts = [arrays[f"standing-{name}"] for name in ("clique", "weight", "round", "drift")]
            standings = tuple(
                Standing(cliques[int(clique)], float(weight), int(which), float(drift))
                for clique, weight, which, drift in zip(*parts, strict=True)
            )
            if any(not (0 <= item.round < count and item.drift >= 0) for item in standings):
                raise ModelFileError("A standing in the model names a round that is not there.")
            certificate = None
            if "certificate" in meta:
                stored = meta["certificate"]
                names = tuple(cliques[int(item)] for item in stored["cliques"])
                values = np.asarray(arrays["certificate"], dtype=np.float64)
                if values.shape != (len(names),) or stored["noise"] not in ("gaussian", "laplace"):
                    raise ModelFileError("The certificate in the model does not fit its marginals.")
                certificate = Certificate(names, values, stored["noise"], float(stored["scale"]))
            return cls(batches, rounds, standings, certificate)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(
                f"The history in the model file is incomplete or damaged: {error}."
            ) from None


def _round(
    domain: Domain,
    measurement: Measurement,
    item: Mapping[str, Any],
    index: int,
    cliques: Sequence[Clique],
    arrays: Mapping[str, npt.NDArray[Any]],
) -> Round:
    clique = cliques[int(item["clique"])]
    answer = arrays[f"answer-{index}"]
    if measurement.clique != clique or answer.shape != domain.shape(clique):
        raise ModelFileError(f"Round {index} of the model does not fit its measurement.")
    return Round(
        clique=clique,
        answer=answer,
        measurement=measurement,
        epsilon=float(item["epsilon"]),
        candidates=tuple(cliques[int(place)] for place in arrays[f"candidates-{index}"]),
        weight=float(item["weight"]),
        largest_weight=float(item["largest_weight"]),
        penalty=float(item["penalty"]),
        l1=float(item["l1"]),
        last=bool(item["last"]),
    )


@dataclass(eq=False)
class RoundLog:
    """Collects the rounds of a mechanism while it runs.

    Parameters
    ----------
    planned
        How many measurements were made before the first round: one planned batch, or several that could each
        depend on those before.
    max_cells
        How many cells of candidates' answers may be remembered. Small marginals come first in a
        closure, so the largest are the ones whose standing is forgotten.

    Examples
    --------
    >>> y = Measurement(("a",), np.array([5.0, 3.0]), "gaussian", 1.0)
    >>> log = RoundLog(planned=0)
    >>> step = Round(("a",), np.array([4, 4]), y, 0.1, (("a",),), 1.0, 1.0, 0.8, 1.0, last=True)
    >>> log.add(step, [np.array([4.0, 4.0])], [1.0])
    >>> history = log.close({("a",): np.array([5.0, 3.0])})
    >>> history.standings[0].drift
    2.0
    """

    planned: int | Sequence[int]
    max_cells: int = 25_000_000
    rounds: list[Round] = field(default_factory=list)
    _answers: dict[Clique, npt.NDArray[np.float32]] = field(default_factory=dict)
    _weights: dict[Clique, tuple[int, float]] = field(default_factory=dict)
    _cells: int = 0

    def add(self, step: Round, answers: Sequence[npt.NDArray[np.float64]], weights: Sequence[float]) -> None:
        """Note a round with the model's answers to its candidates and their weights."""
        for clique, answer, weight in zip(step.candidates, answers, weights, strict=True):
            if clique not in self._answers:
                if self._cells + answer.size > self.max_cells:
                    continue
                self._cells += answer.size
            self._answers[clique] = answer.astype(np.float32)
            self._weights[clique] = (len(self.rounds), float(weight))
        self.rounds.append(step)

    def close(
        self,
        final: Mapping[Clique, npt.NDArray[np.float64]],
        *,
        certificate: Certificate | None = None,
    ) -> History:
        """Return the history, given the final model's answers; candidates without one have no standing."""
        standings = []
        for clique, answer in self._answers.items():
            if clique in final:
                which, weight = self._weights[clique]
                drift = float(np.abs(final[clique] - answer).sum())
                standings.append(Standing(clique, weight, which, drift))
        before = (self.planned,) if isinstance(self.planned, int) else self.planned
        batches = tuple(count for count in before if count) + (1,) * len(self.rounds)
        return History(batches, tuple(self.rounds), tuple(standings), certificate)

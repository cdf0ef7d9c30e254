"""Where a mechanism was published, and the law of its noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class Paper(Enum):
    """The five papers that Understudy is built from, by their short names.

    Examples
    --------
    >>> Paper.AIM.title, Paper.AIM.citation
    ('AIM', 'McKenna, Mullins, Sheldon and Miklau 2022')
    """

    BIRTHS = ("Births", "Hod and Canetti 2024")
    AIM = ("AIM", "McKenna, Mullins, Sheldon and Miklau 2022")
    POISSON = ("Poisson", "Jackson, Mitra, Francis and Dove")
    DENIABILITY = ("Deniability", "Bindschaedler, Shokri and Gunter 2017")
    DIPS = ("DIPS", "Bowen and Liu 2020")

    @property
    def title(self) -> str:
        """The short name that this manual uses."""
        return self.value[0]

    @property
    def citation(self) -> str:
        """Authors and year."""
        return self.value[1]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a mechanism was published, and the law of its noise.

    Attributes
    ----------
    law
        What is drawn, in a few words: the distribution and what it falls on. *Laplace* is the discrete Laplace distribution
        and *Gaussian* the rounded Gaussian one; where both are named, the budget decides between them.
    papers
        Which of the five papers describe the mechanism, and in which section, table or algorithm.
    origin
        The work that proposed it, where that is none of the five.

    Examples
    --------
    >>> tree = Source(law="Laplace on pairs", papers={Paper.AIM: "Table 2"}, origin="McKenna et al. 2021")
    >>> tree.places
    'AIM, Table 2'
    >>> tree.citation
    'McKenna et al. 2021; paper AIM, Table 2'
    """

    law: str
    papers: Mapping[Paper, str] = field(default_factory=dict)
    origin: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "papers", MappingProxyType(dict(self.papers)))
        if not self.law or not all(self.papers.values()) or not (self.papers or self.origin):
            raise ValueError("A source names the law of its noise, and where that was published.")

    @property
    def places(self) -> str:
        """The papers with their sections; the origin where there are none."""
        return "; ".join(f"{paper.title}, {place}" for paper, place in self.papers.items()) or self.origin

    @property
    def citation(self) -> str:
        """All there is, in the words of a reference: the origin first, then the papers."""
        cited = [f"paper {paper.title}, {place}" for paper, place in self.papers.items()]
        text = "; ".join([*filter(None, [self.origin]), *cited])
        return text[0].upper() + text[1:]

    def to_plain(self) -> dict[str, object]:
        """Return it as plain values, for JSON."""
        return {
            "law": self.law,
            "papers": {paper.title: place for paper, place in self.papers.items()},
            "origin": self.origin,
        }

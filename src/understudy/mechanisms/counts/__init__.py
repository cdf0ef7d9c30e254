"""Count mechanisms: a contingency table whose cells are redrawn or perturbed one by one (papers Poisson and DIPS)."""

from understudy.mechanisms.method import Method

_FEW = "tables with few cells in all"
_ROOM = "understudy.mechanisms.counts"

METHODS: tuple[Method, ...] = (
    Method("poisson", f"{_ROOM}.poisson", "PoissonTable", _FEW),
    Method("negative-binomial", f"{_ROOM}.poisson", "NegativeBinomialTable", _FEW),
    Method("poisson-inverse-gaussian", f"{_ROOM}.poisson", "PoissonInverseGaussianTable", _FEW),
    Method("delaporte", f"{_ROOM}.poisson", "DelaporteTable", _FEW),
    Method("sichel", f"{_ROOM}.poisson", "SichelTable", _FEW),
    Method("multinomial-dirichlet", f"{_ROOM}.dirichlet", "MultinomialDirichlet", _FEW),
    Method("binomial-beta", f"{_ROOM}.binomial_beta", "BinomialBeta", "columns of two values"),
    Method("mcclure-reiter", f"{_ROOM}.binomial_beta", "McClureReiter", "columns of two values"),
    Method("gaussian-table", f"{_ROOM}.gaussian_table", "GaussianTable", _FEW),
)

__all__ = ["METHODS"]

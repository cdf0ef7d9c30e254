"""DPCTGAN: a conditional generator trained against a discriminator that learns by DP-SGD (Rosenblatt et al. 2020; Xu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.errors import NoSuchGuarantee
from understudy.marginals import Statistic
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Plan
from understudy.mechanisms.deep.base import ROWS_SHARE, Adversarial, Pace, Trained
from understudy.mechanisms.deep.critic import Critic
from understudy.mechanisms.deep.look import TrainingPlan, open_training
from understudy.mechanisms.options import at_least, between
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, ApproxDP, Budget, Gaussian, Unit
from understudy.privacy.accounting.accounting import PURE
from understudy.privacy.accounting.conversions import approx_to_gdp
from understudy.privacy.accounting.subsampled import subsampled_noise, subsampled_steps
from understudy.privacy.events import Approximated, GaussianEvent
from understudy.schema import Schema

_SHOWN = 64
"""Gradients of the first step that a model keeps to show."""


@dataclass(frozen=True, kw_only=True)
class DPCTGAN(Adversarial):
    """Train a generator against a discriminator whose gradients are clipped, sampled and noisy.

    Parameters
    ----------
    epochs
        Passes over the table, at most: fewer if a given ``noise_multiplier`` spends the budget earlier.
    batch_size
        Expected number of rows in a batch; by default 500, and at most a tenth of the table.
    generator_lr, discriminator_lr, generator_decay, discriminator_decay
        Learning rates and weight decays.
    embedding_dim, generator_dim, discriminator_dim
        Latent numbers, and widths of the hidden layers of the generator and of the discriminator.
    noise_multiplier
        Noise on the sum of gradients, in largest gradients of one row; by default what makes all epochs spend the budget.
    max_per_sample_grad_norm
        Largest gradient of one row; longer ones are shortened.
    loss
        ``"cross_entropy"`` or ``"wasserstein"``.
    generator_every
        Steps of the discriminator for each step of the generator.
    marginal_share
        Share of the privacy loss, in squared mu, that goes to one-way marginals: conditions are drawn from them.
    marginal_weight
        Weight of the noisy one-way marginals in the generator's loss.
    calibrate
        Shift the generator's outputs at the end so that its columns have the noisy one-way shares.
    max_modes
        Ordered columns with more values are cut into so many modes with a position in each.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    public_seed
        Where the networks start from and what they make up while training. Noise and batches take no seed.

    Privacy
    -------
    Looks at the records: the number of rows where it is private (Laplace noise, a fiftieth of epsilon), the one-way marginals
    and the noisy gradients. The last two are one event, charged before the first of them is drawn: all steps together are Poisson-subsampled
    Gaussian sums, whose privacy loss is composed with that of the marginals numerically
    (:mod:`understudy.privacy.accounting.subsampled`, :mod:`understudy.mechanisms.deep.look`). The epsilon charged is the accountant's figure at the
    delta set aside. Rate, noise and number of steps are fixed before the charge. The generator learns from the discriminator's weights,
    which are functions of noisy gradients, and from noisy marginals: post-processing.

    Sampling lowers epsilon at one delta, not the rho or mu that holds at all of them, so zCDP and GDP budgets are refused; so are
    pure ones, which Gaussian noise cannot keep.

    Examples
    --------
    >>> DPCTGAN(epochs=300, batch_size=500, max_per_sample_grad_norm=1.0).name
    'dpctgan'
    """

    name: ClassVar[str] = "dpctgan"
    summary: ClassVar[str] = "conditional generator against a discriminator trained by DP-SGD"
    source: ClassVar[Source] = Source(
        law="Gaussian on clipped gradients of random batches and on marginals; Laplace on a private number of rows",
        papers={Paper.BIRTHS: "section 4.7.2"},
        origin="Xu et al. 2019; Rosenblatt et al. 2020; Abadi et al. 2016",
    )
    budgets: ClassVar[tuple[type, ...]] = (ApproxDP,)

    max_per_sample_grad_norm: float = 1.0
    generator_every: int = 1

    def _problems(self) -> list[str]:
        found = super()._problems()
        if self.loss not in ("cross_entropy", "wasserstein"):
            found.append(f"loss ({self.loss!r}) must be cross_entropy or wasserstein.")
        found += between(self, 0.0001, 1_000, "max_per_sample_grad_norm")
        return found + at_least(self, 1, "generator_every")

    # ------------------------------------------------------------------ public facts

    def accountings(self, budget: Budget) -> tuple[Accounting, ...]:
        """Return pure accounting: training has an (epsilon, delta) of its own, and epsilons add up beside it."""
        self.require(budget)
        return (PURE,)

    def reserve(self, schema: Schema, budget: Budget) -> float:
        """All but a millionth of the delta goes to training."""
        return budget.delta * (1 - 2.0**-20) if isinstance(budget, ApproxDP) else 0.0

    def _training(
        self, schema: Schema, unit: Unit, *, epsilon: float, delta: float, rows: int
    ) -> tuple[TrainingPlan, Approximated]:
        """Choose noise and number of steps so that everything keeps ``(epsilon, delta)``."""
        critic = Critic(
            self._layout(schema), tuple(self.discriminator_dim), self.loss, self.max_per_sample_grad_norm
        )
        batch = self._batch(rows)
        rate = min(1.0, batch / max(1, rows))
        steps = self._rounds(rows)
        marginals = (self._marginal_noise(schema, unit, epsilon, delta),) * len(schema.names)
        measured = tuple(GaussianEvent(unit.histogram_l2, marginal.sigma) for marginal in marginals)
        sides = 1 if unit.relation == "add-remove" else 2
        noise = self.noise_multiplier
        if noise is None:
            noise = subsampled_noise(
                epsilon, delta, rate=rate, steps=steps, rows=unit.max_rows, sides=sides, measured=measured
            )
        else:
            steps = subsampled_steps(
                epsilon,
                delta,
                rate=rate,
                noise_multiplier=noise,
                most=steps,
                rows=unit.max_rows,
                sides=sides,
                measured=measured,
            )
            if steps < 1:
                raise NoSuchGuarantee(
                    f"A noise_multiplier of {noise:g} does not pay for a single batch of {batch} in {rows} rows within "
                    f"epsilon={epsilon:.3g} at delta={delta:.3g}. Use more noise, a larger budget, or leave it out."
                )
        plan = TrainingPlan(critic, rate, noise, steps, marginals)
        if self.noise_multiplier is not None:  # otherwise the noise was solved for, and the figure is epsilon
            epsilon = min(epsilon, plan.event(unit, delta=delta).epsilon)
        return plan, Approximated(epsilon, delta, plan.drawn(unit))

    def _marginal_noise(self, schema: Schema, unit: Unit, epsilon: float, delta: float) -> Gaussian:
        """Return the noise with which all one-way marginals together take their share of the squared mu."""
        columns = len(schema.names) / self.marginal_share
        return Gaussian(unit.histogram_l2 * columns**0.5 / approx_to_gdp(epsilon, delta))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many steps there will be and how noisy they are."""
        self.require(budget)
        self._require_torch()
        assert isinstance(budget, ApproxDP)
        layout = self._layout(schema)
        known = total_is_public(schema, unit)
        epsilon = budget.epsilon * (1.0 if known else 1 - ROWS_SHARE)
        delta = self.reserve(schema, budget)
        Critic(layout, tuple(self.discriminator_dim), self.loss, self.max_per_sample_grad_norm)
        rows = schema.row_count
        if rows is None:
            # refuses units of more rows than the accountant takes, before the number of rows is paid for
            subsampled_steps(epsilon, delta, rate=1.0, noise_multiplier=1.0, most=1, rows=unit.max_rows)
            note = (
                "How many steps there are and how noisy they are depends on the number of rows; declare it (row_count) to "
                "see it here. It is checked before training is charged in any case."
            )
        else:
            training, event = self._training(schema, unit, epsilon=epsilon, delta=delta, rows=rows)
            note = (
                f"{training.steps:,} steps, each on about {training.rate * max(1, rows):.0f} of {rows:,} rows, with "
                f"noise of {training.noise_multiplier:.3g} times the largest gradient of a row: epsilon={event.epsilon:.4g} at "
                f"delta={event.delta:.3g} together with the one-way marginals."
            )
        noise = self._marginal_noise(schema, unit, epsilon, delta)
        return self._planned(schema, unit, budget, noise, note)

    # ------------------------------------------------------------------ fitting

    def _trained(self, curator: Curator, pace: Pace) -> Trained:
        from understudy.mechanisms.deep.networks import CriticOptimiser

        rows, row_measurements = self._rows(curator)
        plan, event = self._training(
            curator.schema, curator.unit, epsilon=curator.remaining, delta=curator.reserve, rows=rows
        )
        layout = plan.critic.layout
        batch = max(1, round(plan.rate * max(1, rows)))
        training = open_training(
            curator,
            plan,
            event=event,
            purpose=f"one-way marginals and {plan.steps} noisy gradients of a discriminator",
        )
        measured = training.marginals()
        generator = self._generator(layout, self._shares(layout, measured))
        critic = CriticOptimiser(
            plan.critic,
            learning_rate=self.discriminator_lr,
            decay=self.discriminator_decay,
            seed=self.public_seed + 1,
        )

        def made_up() -> Any:
            return generator.made_up(batch)

        def made_up_and_learnt() -> Any:
            return generator.learn(batch, critic.score)

        codes, column = pace.on_device(made_up, (generator,))
        trace, first = np.zeros(plan.steps), np.zeros(0)
        while training.steps_left:
            done = plan.steps - training.steps_left
            pace.at(done, plan.steps)
            real = training.step(critic.weights)
            fake = plan.critic.gradients(critic.weights, codes, column, real=False)
            trace[done] = real[-1][-1, 0] / batch
            first = real[0][:_SHOWN, 0] / batch if done == 0 else first
            critic.apply(
                [a / batch + b * (plan.critic.unit / len(codes)) for a, b in zip(real, fake, strict=True)]
            )
            learns = (done + 1) % self.generator_every == 0
            codes, column = pace.on_device(made_up_and_learnt if learns else made_up, (generator,))
        shown = [
            Statistic("first noisy gradients of the first layer of the discriminator", first, "mechanism"),
            Statistic("noisy gradients of the last constant of the discriminator", trace, "mechanism"),
        ]
        return Trained(generator, rows, [*row_measurements, *measured], shown)

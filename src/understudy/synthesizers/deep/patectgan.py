"""PATECTGAN: a conditional generator against a student that hears noisy votes of teachers (Rosenblatt et al. 2020; Jordon et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator, Noise, PanelPlan, dense_inputs, noise_for, open_panel, votes_l2
from understudy.errors import NoSuchGuarantee
from understudy.marginals import Statistic, StatisticNoise
from understudy.privacy import Accounting, Budget, Gaussian, GaussianEvent, Laplace, LaplaceEvent, Unit
from understudy.schema import Schema
from understudy.synthesizers._allocation import total_is_public
from understudy.synthesizers.base import Fitted, Plan, PlannedMeasurement, Progress
from understudy.synthesizers.deep._base import (
    ROWS_SHARE,
    Adversarial,
    few_threads,
    generator_cells,
    on_device,
)

_MOST_SHOWN = 20_000
"""Most noisy answers that a model keeps to show."""


@dataclass(frozen=True, kw_only=True)
class PATECTGAN(Adversarial):
    """Train a generator against a student discriminator that only ever sees made-up records and noisy votes on them.

    Parameters
    ----------
    epochs
        Passes over the table, at most: fewer if a given ``noise_multiplier`` spends the budget earlier.
    batch_size
        Rows that all teachers together look at in one round; by default 500, and at most a tenth of the table.
    generator_lr, discriminator_lr, generator_decay, discriminator_decay
        Learning rates and weight decays of the generator and of the student.
    embedding_dim, generator_dim, discriminator_dim
        Latent numbers, and widths of the hidden layers of the generator and of the student.
    noise_multiplier
        Noise on each number of votes, in votes that one unit can change; by default what makes all epochs spend the budget.
    loss
        ``"cross_entropy"``.
    regularization
        ``None``, or ``"dragan"``: hold the student's slope near made-up records to one.
    sample_per_teacher
        Rows per teacher; their number follows from it and from the number of rows, where ``teachers`` does not say it.
    teachers
        Number of teachers.
    teacher_dim, teacher_lr, teacher_iters
        Units of the hidden layer of a teacher, its learning rate, and its lessons in one round.
    student_iters
        Steps of the student in one round, on answers heard in the last rounds.
    questions
        Made-up records that the teachers are asked about in one round.
    marginal_share
        Share of the budget that goes to one-way marginals: conditions are drawn from them.
    marginal_weight
        Weight of the noisy one-way marginals in the generator's loss.
    calibrate
        Shift the generator's outputs at the end so that its columns have the noisy one-way shares.
    max_modes
        Ordered columns with more values are cut into so many modes with a position in each.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    public_seed
        Where the networks start from and what they make up while training. Noise, parts and lessons take no seed.

    Privacy
    -------
    Looks at the records: the number of rows where it is private, the one-way marginals, and the noisy numbers of votes. The last two are charged
    together before the first is drawn; the proof is in :mod:`understudy.curator.votes`. Teachers never leave the curator. The student learns from
    made-up records and noisy votes, the generator from the student and from noisy marginals: post-processing. Costs do not
    depend on how much the teachers agree.

    Examples
    --------
    >>> PATECTGAN(regularization="dragan", sample_per_teacher=1000).name
    'patectgan'
    """

    name: ClassVar[str] = "patectgan"
    summary: ClassVar[str] = "conditional generator against a student of noisy teacher votes"

    regularization: str | None = None
    sample_per_teacher: int = 100
    teachers: int | None = None
    teacher_dim: int = 32
    teacher_lr: float = 1e-3
    teacher_iters: int = 1
    student_iters: int = 1
    questions: int = 16

    def _problems(self) -> list[str]:
        found = super()._problems()
        if self.loss != "cross_entropy":
            found.append(f"loss ({self.loss!r}) must be cross_entropy: votes are about classes.")
        if self.regularization not in (None, "none", "dragan"):
            found.append(f"regularization ({self.regularization!r}) must be none or dragan.")
        found += [
            f"{name} ({getattr(self, name)}) must be at least 1."
            for name in ("sample_per_teacher", "teacher_dim", "teacher_iters", "student_iters", "questions")
            if getattr(self, name) < 1
        ]
        if self.teachers is not None and self.teachers < 1:
            found.append(f"teachers ({self.teachers}) must be at least 1.")
        if not 0 < self.teacher_lr <= 1:
            found.append(f"teacher_lr ({self.teacher_lr}) must be positive and at most 1.")
        return found

    # ------------------------------------------------------------------ public facts

    def _number(self, rows: int) -> int:
        """Return the number of teachers."""
        return self.teachers or max(2, min(1_000, rows // self.sample_per_teacher))

    def _panel(
        self, schema: Schema, unit: Unit, accounting: Accounting, cost: float, rows: int
    ) -> tuple[PanelPlan, int]:
        """Return the panel and the number of rounds that a cost pays for."""
        layout = self._layout(schema)
        columns = len(schema.names)
        each, votes = accounting.split(cost, [self.marginal_share, 1 - self.marginal_share])
        marginal = noise_for(accounting, unit, accounting.split(each, [1.0] * columns)[0])
        rounds = self._rounds(rows)
        if self.noise_multiplier is not None:
            rounds = self._affordable(accounting, unit, votes, rounds)
            noise = self._given_noise(accounting, unit)
        elif accounting.name == "pure":
            number = float(unit.max_rows * rounds * self.questions)
            noise = Laplace(accounting.laplace_scale(votes, number))
        else:
            noise = Gaussian(accounting.gaussian_sigma(votes, votes_l2(unit, rounds * self.questions)))
        teachers = self._number(rows)
        plan = PanelPlan(
            layout,
            teachers,
            self.teacher_dim,
            max(1, self._batch(rows) // teachers),
            self.teacher_lr,
            rounds * self.questions,
            noise,
            (marginal,) * columns,
        )
        return plan, rounds

    def _given_noise(self, accounting: Accounting, unit: Unit) -> Noise:
        assert self.noise_multiplier is not None
        scale = self.noise_multiplier * unit.max_rows
        return Laplace(scale) if accounting.name == "pure" else Gaussian(scale)

    def _affordable(self, accounting: Accounting, unit: Unit, cost: float, most: int) -> int:
        """Return how many rounds fit a cost with the noise that was given."""
        noise = self._given_noise(accounting, unit)

        def fits(rounds: int) -> bool:
            asked = rounds * self.questions
            if isinstance(noise, Laplace):
                return accounting.cost(LaplaceEvent(float(unit.max_rows * asked), noise.scale)) <= cost
            return accounting.cost(GaussianEvent(votes_l2(unit, asked), noise.scale)) <= cost

        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        if low < 1:
            raise NoSuchGuarantee(
                f"A noise_multiplier of {self.noise_multiplier:g} does not pay for {self.questions} questions. Use more noise, a "
                "larger budget, fewer questions, or leave it out."
            )
        return low

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many questions there will be and how noisy the answers are."""
        self._require_torch()
        accounting = self.accounting(budget)
        known = total_is_public(schema, unit)
        cost = accounting.total(budget) * (1.0 if known else 1 - ROWS_SHARE)
        rows = schema.row_count
        panel, rounds = self._panel(schema, unit, accounting, cost, 10_000 if rows is None else rows)
        if rows is None:
            notes = [
                "How many teachers and questions there are, and how noisy the answers, depends on the number of rows; declare it "
                "(row_count) to see it here."
            ]
        else:
            notes = [
                f"{panel.teachers} teachers with about {rows / panel.teachers:.0f} rows each answer {panel.questions:,} questions in "
                f"{rounds:,} rounds, with noise of scale {panel.noise.scale:.4g} votes on each answer.",
            ]
        return Plan(
            method=self.name,
            budget=budget,
            unit=unit,
            accounting=accounting.name,
            measurements=tuple(
                PlannedMeasurement((name,), schema.domain.size(name), noise)
                for name, noise in zip(schema.names, panel.marginals, strict=True)
            ),
            model_cells=generator_cells(self, panel.layout),
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ fitting

    def _fit(self, curator: Curator, *, progress: Progress) -> Fitted:
        with few_threads(self._layout(curator.schema)):
            return self._trained(curator, progress)

    def _trained(self, curator: Curator, progress: Progress) -> Fitted:
        from understudy.synthesizers.deep._networks import Student

        schema, known = curator.schema, curator.rows_are_exact
        rows, told = self._rows(curator)
        plan, rounds = self._panel(schema, curator.unit, curator.accounting, curator.remaining, rows)
        layout, batch = plan.layout, self._batch(rows)
        panel = open_panel(
            curator,
            plan,
            generator=np.random.default_rng(self.public_seed + 1),
            purpose=f"one-way marginals and {plan.questions} noisy votes of {plan.teachers} teachers",
        )
        measured = panel.marginals()
        generator = self._generator(layout, self._shares(layout, measured))
        student = Student(
            layout.width + layout.conditions,
            tuple(self.discriminator_dim),
            learning_rate=self.discriminator_lr,
            decay=self.discriminator_decay,
            dragan=self.regularization == "dragan",
            device=generator.device,
            seed=self.public_seed + 2,
            kept=max(4_096, 8 * self.questions),
        )
        fraction = 0.05

        def tell(stage: str) -> None:
            progress(stage, fraction)

        def train(rows: int) -> None:
            for _ in range(self.student_iters):
                student.learn(rows)
            generator.learn(rows, student.score)

        parts = (generator, student)
        heard = []
        for place in range(rounds):
            if place % 20 == 0:
                fraction = 0.05 + 0.9 * place / rounds
                tell("training")
            for _ in range(self.teacher_iters):
                made_up = on_device(lambda: generator.made_up(plan.teachers * plan.batch), parts, tell)
                panel.teach(*made_up)
            codes, column = on_device(lambda: generator.made_up(self.questions), parts, tell)
            answers = panel.ask(codes, column)
            heard.append(answers)
            student.hear(dense_inputs(layout, codes, column), answers / plan.teachers)
            on_device(lambda: train(batch), parts, tell)
        total = self._total(rows, known, [*told, *measured])
        model = generator.distribution(schema.domain, total, calibrate=self.calibrate)
        progress("done", 1.0)
        kind: StatisticNoise = "laplace" if isinstance(plan.noise, Laplace) else "gaussian"
        shown = np.concatenate(heard)[:_MOST_SHOWN]
        votes = Statistic("noisy votes of the teachers", shown, kind, plan.noise.scale)
        return Fitted(model, [*told, *measured], statistics=[votes])

"""PATECTGAN: a conditional generator against a student that hears noisy votes of teachers (Rosenblatt et al. 2020; Jordon et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.curator import Curator
from understudy.errors import NoSuchGuarantee
from understudy.marginals import Statistic
from understudy.mechanisms.allocation import total_is_public
from understudy.mechanisms.base import Plan, total_deviation
from understudy.mechanisms.deep.base import ROWS_SHARE, WIDEST, Adversarial, Pace, Trained
from understudy.mechanisms.deep.look import PanelPlan, deals_people, dense_inputs, open_panel, votes_l2
from understudy.mechanisms.options import at_least, between, one_of, unused, up_to_one
from understudy.mechanisms.source import Paper, Source
from understudy.privacy import Accounting, Budget, Gaussian, Laplace, Noise, Unit, noise_for
from understudy.privacy.noise.noise import noise_within
from understudy.schema import Schema

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
    together before the first is drawn; the proof is in :mod:`understudy.mechanisms.deep.look`. Teachers never leave the curator. The student learns from
    made-up records and noisy votes, the generator from the student and from noisy marginals: post-processing. Costs do not
    depend on how much the teachers agree.

    Examples
    --------
    >>> PATECTGAN(regularization="dragan", sample_per_teacher=1000).name
    'patectgan'
    """

    name: ClassVar[str] = "patectgan"
    summary: ClassVar[str] = "conditional generator against a student of noisy teacher votes"
    source: ClassVar[Source] = Source(
        law="Laplace or Gaussian on votes of teachers and on marginals",
        papers={Paper.BIRTHS: "section 4.7.2"},
        origin="Papernot et al. 2017 and 2018; Jordon, Yoon and van der Schaar 2019; Rosenblatt et al. 2020",
    )

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
        found += one_of(self, "regularization", (None, "none", "dragan"))
        found += at_least(self, 1, "sample_per_teacher", "teacher_iters", "student_iters", "questions")
        found += between(self, 1, WIDEST, "teacher_dim")
        found += at_least(self, 1, "teachers", optional=True)
        if self.teachers is not None:
            found += unused(self, "sample_per_teacher", because="teachers says how many there are")
        return found + up_to_one(self, "teacher_lr")

    # ------------------------------------------------------------------ public facts

    def _number(self, rows: int) -> int:
        """Return the number of teachers."""
        return self.teachers or max(2, min(1_000, rows // self.sample_per_teacher))

    def _panel(
        self,
        schema: Schema,
        unit: Unit,
        accounting: Accounting,
        cost: float,
        rows: int,
        *,
        whole: bool | None = None,
    ) -> tuple[PanelPlan, int]:
        """Return the panel and the number of rounds that a cost pays for; ``whole`` says whether people are dealt as a whole, by default where they are the unit."""
        whole = unit.id_column is not None if whole is None else whole
        touched = 1 if whole else unit.max_rows
        layout = self._layout(schema)
        columns = len(schema.names)
        each, votes = accounting.split(cost, [self.marginal_share, 1 - self.marginal_share])
        marginal = noise_for(accounting, unit, accounting.split(each, [1.0] * columns)[0])
        rounds = self._rounds(rows)
        if self.noise_multiplier is not None:
            rounds = self._affordable(accounting, touched, votes, rounds)
            noise = self._given_noise(accounting, touched)
        else:
            asked = rounds * self.questions
            noise = noise_within(accounting, votes, l1=touched * asked, l2=votes_l2(touched, asked))
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
            whole,
        )
        return plan, rounds

    def _given_noise(self, accounting: Accounting, touched: int) -> Noise:
        assert self.noise_multiplier is not None
        scale = self.noise_multiplier * touched
        return Laplace(scale) if accounting.name == "pure" else Gaussian(scale)

    def _affordable(self, accounting: Accounting, touched: int, cost: float, most: int) -> int:
        """Return how many rounds fit a cost with the noise that was given."""
        noise = self._given_noise(accounting, touched)

        def fits(rounds: int) -> bool:
            asked = rounds * self.questions
            event = noise.event(l1=touched * asked, l2=votes_l2(touched, asked))
            return accounting.cost(event) <= cost

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

    def expected_noise(self, schema: Schema, unit: Unit, accounting: Accounting, cost: float) -> float:
        """Return the deviations of an answer of the teachers and of a cell of a column."""
        rows = 10_000 if schema.row_count is None else schema.row_count
        panel, _ = self._panel(schema, unit, accounting, cost, rows)
        return total_deviation((1, noise) for noise in (panel.noise, panel.marginals[0]))

    def plan(self, schema: Schema, *, unit: Unit, budget: Budget) -> Plan:
        """Say how many questions there will be and how noisy the answers are."""
        self._require_torch()
        accounting = self.accounting(budget, schema, unit)
        known = total_is_public(schema, unit)
        cost = accounting.total(budget) * (1.0 if known else 1 - ROWS_SHARE)
        rows = schema.row_count
        panel, rounds = self._panel(schema, unit, accounting, cost, 10_000 if rows is None else rows)
        if rows is None:
            note = (
                "How many teachers and questions there are, and how noisy the answers, depends on the number of rows; declare it "
                "(row_count) to see it here."
            )
        else:
            note = (
                f"{panel.teachers} teachers with about {rows / panel.teachers:.0f} rows each answer {panel.questions:,} questions in "
                f"{rounds:,} rounds, with noise of scale {panel.noise.scale:.4g} votes on each answer."
            )
        if unit.max_rows > 1:
            note += " All rows of a person go to one teacher; of tables in databases each row goes to one, with so much more noise."
        return self._planned(schema, unit, budget, panel.marginals[0], note)

    # ------------------------------------------------------------------ fitting

    def _trained(self, curator: Curator, pace: Pace) -> Trained:
        from understudy.mechanisms.deep.networks import Student

        rows, row_measurements = self._rows(curator)
        plan, rounds = self._panel(
            curator.schema,
            curator.unit,
            curator.accounting,
            curator.remaining,
            rows,
            whole=deals_people(curator),
        )
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

        def train() -> None:
            for _ in range(self.student_iters):
                student.learn(batch)
            generator.learn(batch, student.score)

        parts = (generator, student)
        heard = []
        for place in range(rounds):
            pace.at(place, rounds)
            for _ in range(self.teacher_iters):
                panel.teach(*pace.on_device(lambda: generator.made_up(plan.teachers * plan.batch), parts))
            codes, column = pace.on_device(lambda: generator.made_up(self.questions), parts)
            heard.append(panel.ask(codes, column))
            student.hear(dense_inputs(layout, codes, column), heard[-1] / plan.teachers)
            pace.on_device(train, parts)
        shown = np.concatenate(heard)[:_MOST_SHOWN]
        votes = Statistic("noisy votes of the teachers", shown, plan.noise.kind, plan.noise.scale)
        return Trained(generator, rows, [*row_measurements, *measured], [votes])

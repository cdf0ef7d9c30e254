"""Each known violation of public DP-GAN and PATE-GAN code, and that it is absent here (list: docs/methods/dpctgan.md)."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy
from deep_examples import SCHEMA, curator_of, random_codes
from understudy.curator import Curator
from understudy.errors import BudgetError, LookFailed, MissingExtra, NoSuchGuarantee
from understudy.mechanisms import create, load_model
from understudy.mechanisms.deep.dpctgan import DPCTGAN
from understudy.mechanisms.deep.encoding import Layout
from understudy.mechanisms.deep.look import PanelPlan, deal, open_panel
from understudy.mechanisms.deep.patectgan import PATECTGAN
from understudy.privacy import GDP, ZCDP, ApproxDP, Budget, Laplace, PureDP, SeededRandomness, Unit
from understudy.privacy.accounting.subsampled import approximated
from understudy.privacy.events import Approximated, GaussianEvent, LaplaceEvent, SubsampledGaussianEvent
from understudy.schema import Schema

torch = pytest.importorskip("torch", reason="deep mechanisms need torch: pip install 'understudy[deep]'")

SMALL: dict[str, Any] = {"embedding_dim": 4, "generator_dim": (8,), "discriminator_dim": (8,)}
BUDGET = ApproxDP(2.0, 1e-5)
DEEP = Path(inspect.getfile(DPCTGAN)).parent
NAMES = ["dpctgan", "patectgan"]


def curator(
    name: str,
    rows: int = 300,
    *,
    seed: int = 1,
    unit: Unit | None = None,
    budget: Budget = BUDGET,
    constant: int | None = None,
    schema: Schema = SCHEMA,
) -> Curator:
    codes = random_codes(np.random.default_rng(5), rows)
    if constant is not None:
        codes = np.full_like(codes, constant)
    reserve = create(name).reserve(schema, budget)
    return curator_of(codes, budget=budget, unit=unit, randomness=seed, reserve=reserve, schema=schema)


def events(door: Curator) -> list[Any]:
    return [entry.event for entry in door.ledger.entries() if entry.event is not None]


# ------------------------------------------------------------------ what may be learnt without paying


@pytest.mark.parametrize("name", NAMES)
def test_domain_scaler_and_modes_come_from_the_schema(name: str) -> None:
    """Two tables with nothing in common have the same networks, modes and outputs: only weights differ."""
    shapes = []
    for constant in (0, 1):
        model = create(name, epochs=1, **SMALL).fit(curator(name, constant=constant), BUDGET)
        _meta, arrays = model.distribution.to_arrays()
        shapes.append({key: value.shape for key, value in arrays.items()})
        assert [first.tolist() for first in model.distribution.starts] == [
            first.tolist() for first in Layout.of(SCHEMA, max_modes=64).starts
        ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", NAMES)
def test_conditions_are_a_function_of_the_noisy_marginals(name: str) -> None:
    model = create(name, epochs=1, **SMALL).fit(curator(name), BUDGET)
    layout = Layout.of(SCHEMA, max_modes=64)
    measured = [item for item in model.measurements if item.clique]
    wanted = np.concatenate(DPCTGAN._shares(layout, measured)) / len(layout.sizes)
    np.testing.assert_allclose(model.distribution.conditions, wanted, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_rows_is_public_or_paid_for(name: str) -> None:
    """A private number of rows is measured first; everything after it uses the noisy one."""
    door = curator(name)
    create(name, epochs=1, **SMALL).fit(door, BUDGET)
    first = events(door)[0]
    assert isinstance(first, LaplaceEvent if name == "dpctgan" else GaussianEvent)
    assert (
        next(entry.purpose for entry in door.ledger.entries() if entry.event) == "measure the number of rows"
    )
    public = Schema([*SCHEMA.columns], row_count=300)
    door = curator(name, schema=public)
    create(name, epochs=1, **SMALL).fit(door, BUDGET)
    assert len(events(door)) == 1


def test_the_generator_cannot_reach_records() -> None:
    """The folder of the mechanisms imports nothing that holds records but in its look, and its networks get no curator."""
    for path in (path for path in DEEP.glob("*.py") if path.name != "look.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("understudy.data")
            if isinstance(node, ast.Attribute):
                assert node.attr not in {"_table", "_codes", "_randomness", "_votes"}, path
    for module in ("generator.py", "networks.py"):
        assert "Curator" not in (DEEP / module).read_text(encoding="utf-8")


# ------------------------------------------------------------------ noise and batches


def test_seeds_do_not_reach_noise_or_batches() -> None:
    """Equal public seeds, different randomness: other marginals and gradients. No generator of torch's or NumPy's own."""
    models = [
        DPCTGAN(epochs=1, public_seed=3, **SMALL).fit(curator("dpctgan", seed=seed), BUDGET)
        for seed in (1, 2)
    ]
    first, second = ([item.values for item in (*model.measurements, *model.statistics)] for model in models)
    assert not any(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    from understudy.mechanisms.deep import look as gradients
    from understudy.mechanisms.deep import look as votes

    for module in (gradients, votes):
        text = inspect.getsource(module)
        assert "default_rng" not in text.replace("generator=np.random.default_rng", "")
        assert "torch" not in text


@pytest.mark.parametrize("name", NAMES)
def test_global_generators_are_untouched(name: str) -> None:
    before = torch.get_rng_state()
    create(name, epochs=1, **SMALL).fit(curator(name), BUDGET)
    assert torch.equal(before, torch.get_rng_state())


def test_batches_are_random_in_size_and_divided_by_their_expected_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from understudy.mechanisms.deep import look as gradients

    sizes = []
    original = gradients.poisson_batch

    def watched(rows: int, rate: float, randomness: Any) -> Any:
        batch = original(rows, rate, randomness)
        sizes.append(len(batch))
        return batch

    monkeypatch.setattr(gradients, "poisson_batch", watched)
    DPCTGAN(epochs=4, batch_size=30, **SMALL).fit(curator("dpctgan"), BUDGET)
    assert len(set(sizes)) > 5
    source = inspect.getsource(DPCTGAN._trained)
    assert "a / batch" in source
    assert "batch = max(1, round(plan.rate" in source


# ------------------------------------------------------------------ charges


@pytest.mark.parametrize("unit", [Unit.add_remove(), Unit.replace_one()], ids=lambda unit: unit.relation)
def test_the_guarantee_is_the_figure_of_the_accountant(unit: Unit) -> None:
    """Recomputed from what the ledger recorded, by our accountant and by dp-accounting."""
    schema = Schema([*SCHEMA.columns], row_count=300)
    door = curator("dpctgan", unit=unit, schema=schema)
    model = DPCTGAN(epochs=3, **SMALL).fit(door, BUDGET)
    (event,) = events(door)
    assert isinstance(event, Approximated)
    assert event.epsilon == BUDGET.epsilon == model.provenance.spent
    again = approximated(event.events, delta=event.delta)
    assert again.epsilon == pytest.approx(event.epsilon, rel=1e-3)
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    relations = pytest.importorskip("dp_accounting.privacy_accountant").NeighboringRelation
    relation = relations.ADD_OR_REMOVE_ONE if unit.relation == "add-remove" else relations.REPLACE_ONE
    sampled = [item for item in event.events if isinstance(item, SubsampledGaussianEvent)]
    ratio = sum((item.l2_sensitivity / item.sigma) ** 2 for item in event.events if item not in sampled)
    referee = pld.from_gaussian_mechanism(
        sampled[0].noise_multiplier, sampling_prob=sampled[0].rate, neighboring_relation=relation
    ).self_compose(int(sampled[0].steps))
    referee = referee.compose(pld.from_gaussian_mechanism(ratio**-0.5))
    assert referee.get_epsilon_for_delta(event.delta) == pytest.approx(event.epsilon, rel=2e-3)


def test_the_budget_is_charged_before_the_first_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.mechanisms.deep import look as gradients

    door = curator("dpctgan")
    seen = []

    def watched(*_: Any) -> Any:
        seen.append(door.ledger.entries()[-1].event)
        raise RuntimeError("stop")

    monkeypatch.setattr(gradients, "poisson_batch", watched)
    with pytest.raises(LookFailed):  # which says nothing of "stop"
        DPCTGAN(epochs=1, **SMALL).fit(door, BUDGET)
    assert isinstance(seen[0], Approximated)


def test_every_step_is_counted_and_none_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.mechanisms.deep.look import Training

    taken = []
    original = Training.step
    monkeypatch.setattr(Training, "step", lambda self, w: taken.append(1) or original(self, w))
    door = curator("dpctgan")
    DPCTGAN(epochs=2, **SMALL).fit(door, BUDGET)
    sampled = [e for e in events(door)[-1].events if isinstance(e, SubsampledGaussianEvent)]
    assert len(taken) == sampled[0].steps


def test_training_stops_when_the_budget_is_spent() -> None:
    door = curator("dpctgan", schema=Schema([*SCHEMA.columns], row_count=300))
    DPCTGAN(epochs=300, noise_multiplier=2.0, **SMALL).fit(door, BUDGET)
    sampled = next(e for e in events(door)[-1].events if isinstance(e, SubsampledGaussianEvent))
    assert sampled.noise_multiplier == 2.0
    assert 1 <= sampled.steps < 3000
    assert 0.9 * BUDGET.epsilon < door.ledger.entries()[-1].event.epsilon <= BUDGET.epsilon
    door = curator("patectgan")
    PATECTGAN(epochs=300, noise_multiplier=100.0, **SMALL).fit(door, BUDGET)
    assert door.ledger.spent > 0.9 * door.ledger.rule.total


def test_less_than_the_budget_is_charged_where_less_is_drawn() -> None:
    door = curator("dpctgan", schema=Schema([*SCHEMA.columns], row_count=300))
    model = DPCTGAN(epochs=1, noise_multiplier=20.0, **SMALL).fit(door, BUDGET)
    assert model.provenance.spent < 0.8 * BUDGET.epsilon


# ------------------------------------------------------------------ teachers


def test_parts_are_disjoint_and_random_and_do_not_depend_on_values() -> None:
    words = SeededRandomness(2).words(1000)
    dealt = deal(1000, 7, words)
    assert set(dealt.tolist()) == set(range(7))
    np.testing.assert_array_equal(
        deal(999, 7, words[1:]), dealt[1:]
    )  # a row less changes no other row's teacher
    with pytest.raises(BudgetError):
        deal(1000, 7, words[:500])
    plan = PanelPlan(Layout.of(SCHEMA, max_modes=64), 7, 4, 2, 0.01, 10, Laplace(100.0))
    panels = [
        open_panel(
            curator("patectgan", 200, budget=PureDP(1.0), constant=value),
            plan,
            generator=np.random.default_rng(0),
            purpose="ask",
        )
        for value in (0, 1)
    ]
    np.testing.assert_array_equal(panels[0]._order, panels[1]._order)
    assert sorted(panels[0]._order.tolist()) == list(range(200))
    assert panels[0]._sizes.sum() == 200


def test_labels_are_charged_one_by_one_and_no_answer_is_exact() -> None:
    door = curator("patectgan", budget=PureDP(2.0))
    model = PATECTGAN(epochs=1, questions=4, **SMALL).fit(door, PureDP(2.0))
    votes = events(door)[-1].events[-1]
    heard = model.statistics[0]
    assert votes == LaplaceEvent(float(heard.values.size), heard.scale)
    gaussian = curator("patectgan")
    model = PATECTGAN(epochs=1, questions=4, **SMALL).fit(gaussian, BUDGET)
    votes = events(gaussian)[-1].events[-1]
    assert votes.l2_sensitivity >= model.statistics[0].values.size ** 0.5
    assert votes.sigma == model.statistics[0].scale
    plan = PanelPlan(Layout.of(SCHEMA, max_modes=64), 7, 4, 2, 0.01, 10, Laplace(100.0))
    panel = open_panel(
        curator("patectgan", 200, budget=PureDP(1.0)), plan, generator=np.random.default_rng(0), purpose="ask"
    )
    panel.ask(np.zeros((10, 3), dtype=int), np.zeros(10, dtype=int))
    with pytest.raises(BudgetError, match="0 of the 10 questions"):
        panel.ask(np.zeros((1, 3), dtype=int), np.zeros(1, dtype=int))


def test_costs_do_not_depend_on_agreement() -> None:
    """Tables on which all teachers agree and on which they do not are charged alike."""
    charged = []
    for constant in (None, 0):
        door = curator("patectgan", schema=Schema([*SCHEMA.columns], row_count=300), constant=constant)
        PATECTGAN(epochs=1, **SMALL).fit(door, BUDGET)
        charged.append(events(door))
    assert charged[0] == charged[1]


def test_the_student_sees_made_up_records_only() -> None:
    """What it can hear is inputs and labels that the mechanism hands it; it has no other way in."""
    from understudy.mechanisms.deep.networks import Student

    public = {name for name in vars(Student) if not name.startswith("_")}
    assert public == {"move_to_cpu", "logits", "hear", "learn", "score"}
    source = inspect.getsource(PATECTGAN._trained)
    assert source.count("student.hear(") == 1
    assert "codes, column = pace.on_device(lambda: generator.made_up(" in source


# ------------------------------------------------------------------ files, refusals, missing parts


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_hold_matrices_and_need_no_torch(name: str, tmp_path: Path) -> None:
    model = create(name, epochs=1, **SMALL).fit(curator(name), BUDGET)
    path = tmp_path / "model.understudy"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        rows = [np.load(archive.open(item)).shape for item in archive.namelist() if item.endswith(".npy")]
        assert all(300 not in shape for shape in rows)
        json.loads(archive.read("model.json"))
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from understudy.mechanisms import load_model\n"
        f"print(len(load_model({str(path)!r}).sample(20, seed=1)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "20", run.stderr
    assert load_model(path).distribution.kind == "neural-generator"


@pytest.mark.parametrize("name", NAMES)
def test_without_torch_the_plan_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda what, *rest: None if what == "torch" else found(what, *rest)
    )
    door = curator(name)
    with pytest.raises(MissingExtra, match=r"pip install 'understudy\[deep\]'"):
        create(name).fit(door, BUDGET)
    assert door.ledger.spent == 0


def test_importing_does_not_import_torch() -> None:
    code = (
        "import sys, understudy; from understudy.mechanisms import create, methods\n"
        "create('dpctgan'); create('patectgan'); import understudy.curator\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
    assert understudy.__file__


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_larger_than_the_table_is_refused_and_costs_only_what_was_drawn(name: str) -> None:
    public = Schema([*SCHEMA.columns], row_count=300)
    door = curator(name, schema=public)
    with pytest.raises(BudgetError, match="batch_size"):
        create(name, batch_size=301).fit(door, BUDGET)
    assert door.ledger.spent == 0
    door = curator(name)
    with pytest.raises(BudgetError, match="batch_size"):
        create(name, batch_size=5000).fit(door, BUDGET)
    assert len(events(door)) == 1  # the number of rows was measured, nothing else


def test_a_gpu_without_memory_is_left_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.mechanisms.deep.generator import Generator

    told = []
    original = Generator.learn
    fails = iter([True])

    def learn(self: Any, rows: int, score: Any) -> Any:
        if next(fails, False):
            raise torch.cuda.OutOfMemoryError("no memory")
        return original(self, rows, score)

    monkeypatch.setattr(Generator, "learn", learn)
    door = curator("dpctgan")
    model = DPCTGAN(epochs=1, **SMALL).fit(door, BUDGET, progress=lambda stage, _: told.append(stage))
    assert any("GPU out of memory" in stage for stage in told)
    assert len(model.sample(5, seed=0)) == 5
    assert door.ledger.spent == pytest.approx(BUDGET.epsilon, rel=1e-3) or len(events(door)) == 2


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in NAMES:
        door = curator(name)
        with pytest.raises(BudgetError, match="no GPU"):
            create(name, device="cuda").fit(door, BUDGET)
        assert door.ledger.spent == 0


@pytest.mark.parametrize("rows", [None, 300])
def test_units_of_too_many_rows_are_refused_before_anything_is_spent(rows: int | None) -> None:
    schema = Schema([*SCHEMA.columns], row_count=rows)
    crowd = Unit.add_remove_person("id", max_rows=1001)
    with pytest.raises(NoSuchGuarantee, match="1,000 rows"):
        DPCTGAN().plan(schema, unit=crowd, budget=BUDGET)


def test_budgets_without_a_proof_are_refused() -> None:
    for budget in (PureDP(1.0), ZCDP(0.1), GDP(0.5)):
        with pytest.raises(NoSuchGuarantee):
            DPCTGAN().plan(SCHEMA, unit=Unit.add_remove(), budget=budget)
    public = Schema([*SCHEMA.columns], row_count=10_000)
    with pytest.raises(NoSuchGuarantee, match="noise_multiplier"):
        DPCTGAN(noise_multiplier=0.001).plan(public, unit=Unit.add_remove(), budget=BUDGET)
    with pytest.raises(NoSuchGuarantee, match="noise_multiplier"):
        PATECTGAN(noise_multiplier=0.001).plan(public, unit=Unit.add_remove(), budget=BUDGET)
    plan = DPCTGAN(noise_multiplier=5.0).plan(public, unit=Unit.add_remove(), budget=BUDGET)
    assert "steps" in plan.notes[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"generator_lr": 0.0},
        {"discriminator_decay": -1.0},
        {"generator_dim": ()},
        {"discriminator_dim": (1000,)},
        {"noise_multiplier": 0.0},
        {"marginal_share": 1.0},
        {"loss": "hinge"},
        {"max_modes": 1},
        {"device": "tpu"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_without_a_meaning_are_refused(wrong: dict[str, Any]) -> None:
    for name in NAMES:
        with pytest.raises(BudgetError, match=next(iter(wrong))):
            create(name, **wrong)
    with pytest.raises(BudgetError):
        PATECTGAN(loss="wasserstein")
    with pytest.raises(BudgetError):
        PATECTGAN(regularization="ridge")
    with pytest.raises(BudgetError):
        DPCTGAN(max_per_sample_grad_norm=0.0)

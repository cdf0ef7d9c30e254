"""MST and AIM on mbi's estimator. Runs inside the peers' environment, without Understudy.

mbi publishes an engine; the mechanisms that use it live outside the package. These two drivers are
written from their papers: MST (McKenna, Miklau, Sheldon 2021) with its merging of rare values, AIM (McKenna
et al. 2022) with the published settings, both with mbi's recommended estimator. Noise is floating
point from a seed: this is a yardstick, not something to release data with.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from itertools import combinations

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_enable_compilation_cache", False)

from mbi import Domain, LinearMeasurement, estimation, junction_tree  # noqa: E402


class Task:
    """A table, a budget in zCDP and a source of noise."""

    def __init__(self, task):
        self.names, self.sizes = task["names"], task["sizes"]
        self.rho, self.rows = task["rho"], task["rows"]
        self.workload = [(tuple(clique), weight) for clique, weight in task["workload"]]
        self.noise = np.random.default_rng(task["seed"])
        np.random.seed(task["seed"])  # noqa: NPY002 - mbi samples from the global generator
        with np.load(task["source"]) as columns:
            self.codes = {name: columns[f"c{i}"].astype(int) for i, name in enumerate(self.names)}

    def size(self, name):
        return self.sizes[self.names.index(name)]

    def measure(self, counts, clique, sigma):
        return LinearMeasurement(counts + self.noise.normal(0, sigma, counts.size), clique, stddev=sigma)

    def choose(self, scores, epsilon, sensitivity):
        logits = 0.5 * epsilon / sensitivity * np.asarray(scores)
        return int(np.argmax(logits + self.noise.gumbel(size=logits.size)))


def histogram(codes, sizes, clique):
    shape = [sizes[name] for name in clique]
    flat = np.ravel_multi_index([codes[name] for name in clique], shape)
    return np.bincount(flat, minlength=math.prod(shape)).astype(float)


def total_of(columns):
    """Best estimate of the number of rows from noisy one-way tables of equal precision."""
    sums = [(float(np.sum(item.noisy_measurement)), len(item.noisy_measurement)) for item in columns]
    weight = sum(1 / cells for _, cells in sums)
    return max(1.0, sum(total / cells for total, cells in sums) / weight)


def estimate(domain, measured, total, iters, warm_start=None):
    return estimation.MirrorDescent().estimate(
        domain, measured, known_total=total, iters=iters, warm_start=warm_start
    )


def mst(task):
    """One third each for columns, choices and pairs; values below three sigma are merged."""
    sizes = dict(zip(task.names, task.sizes, strict=True))
    third, d = task.rho / 3, len(task.names)
    sigma = math.sqrt(d / (2 * third))
    first = [task.measure(histogram(task.codes, sizes, (name,)), (name,), sigma) for name in task.names]
    place, kept, codes, small, merged = {}, {}, {}, {}, []
    for name, item in zip(task.names, first, strict=True):
        noisy = np.asarray(item.noisy_measurement)
        frequent = noisy >= 3 * sigma
        kept[name] = np.flatnonzero(frequent)
        rare = int(frequent.size - frequent.sum())
        place[name] = np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())
        small[name] = int(frequent.sum()) + (1 if rare else 0)
        codes[name] = place[name][task.codes[name]]
        merged.append(LinearMeasurement(noisy[frequent], (name,), stddev=sigma) if not rare else None)
        if rare:
            values = np.append(noisy[frequent], noisy[~frequent].sum() / math.sqrt(rare))
            scale = np.ones(values.size)
            scale[-1] = 1 / math.sqrt(rare)
            merged[-1] = LinearMeasurement(
                values, (name,), stddev=sigma, query=lambda factor, scale=scale: factor.datavector() * scale
            )
    domain = Domain(task.names, [small[name] for name in task.names])
    total = total_of(first)
    model = estimate(domain, merged, total, 5000)
    distance = {}
    for pair in combinations(task.names, 2):
        distance[pair] = np.abs(
            histogram(codes, small, pair) - np.asarray(model.project(pair).datavector())
        ).sum()
    group = {name: i for i, name in enumerate(task.names)}
    epsilon = math.sqrt(8 * third / max(1, d - 1))
    tree = []
    while len(tree) < d - 1:
        open_pairs = [pair for pair in distance if group[pair[0]] != group[pair[1]]]
        left, right = open_pairs[task.choose([distance[pair] for pair in open_pairs], epsilon, 1.0)]
        old = group[right]
        group = {name: group[left] if label == old else label for name, label in group.items()}
        tree.append((left, right))
    sigma = math.sqrt(max(1, d - 1) / (2 * third))
    second = [task.measure(histogram(codes, small, pair), pair, sigma) for pair in tree]
    rows = estimate(domain, [*merged, *second], total, 5000).synthetic_data(rows=task.rows)
    result = {}
    for name in task.names:
        values = np.asarray(rows.to_dict()[name]).astype(int)
        lookup = np.append(kept[name], 0)
        result[name] = lookup[np.minimum(values, len(kept[name]))]
        rare = np.setdiff1d(np.arange(sizes[name]), kept[name])
        hidden = values >= len(kept[name])
        if hidden.any():
            result[name][hidden] = task.noise.choice(rare, int(hidden.sum()))
    return result


def aim(task):
    """Algorithms 2 to 4 with the published settings: 16 rounds per column, nine tenths for measuring, 80 MB."""
    sizes = dict(zip(task.names, task.sizes, strict=True))
    domain = Domain(task.names, task.sizes)
    weights = {}
    for clique, _ in task.workload:
        for size in range(1, len(clique) + 1):
            for part in combinations(clique, size):
                weights[part] = 0.0
    for part in weights:
        weights[part] = sum(c * len(set(part) & set(clique)) for clique, c in task.workload)
    exact = {part: histogram(task.codes, sizes, part) for part in weights}
    rounds = 16 * len(task.names)
    sigma, epsilon = math.sqrt(rounds / (1.8 * task.rho)), math.sqrt(0.8 * task.rho / rounds)
    measured = [task.measure(exact[part], part, sigma) for part in weights if len(part) == 1]
    used = len(measured) / (2 * sigma**2)
    total = total_of(measured)
    model = estimate(domain, measured, total, 1000)
    last = False
    while not last:
        if task.rho - used <= 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            left, last = task.rho - used, True
            sigma, epsilon = math.sqrt(1 / (1.8 * left)), math.sqrt(0.8 * left)
        used += epsilon**2 / 8 + 0.5 / sigma**2
        held = [item.clique for item in measured]
        limit = 80 * used / task.rho
        fits = [
            part
            for part in weights
            if part in held or junction_tree.hypothetical_model_size(domain, [*held, part]) <= limit
        ]
        bias = math.sqrt(2 / math.pi) * sigma
        answers = {part: np.asarray(model.project(part).datavector()) for part in fits}
        scores = [
            weights[part] * (np.abs(exact[part] - answers[part]).sum() - bias * exact[part].size)
            for part in fits
        ]
        chosen = fits[task.choose(scores, epsilon, max(weights[part] for part in fits))]
        measured.append(task.measure(exact[chosen], chosen, sigma))
        model = estimate(domain, measured, total, 1000, model)
        moved = np.abs(np.asarray(model.project(chosen).datavector()) - answers[chosen]).sum()
        if moved <= bias * exact[chosen].size:
            sigma, epsilon = sigma / 2, epsilon * 2
    rows = model.synthetic_data(rows=task.rows)
    return {name: np.asarray(rows.to_dict()[name]) for name in task.names}


def main():
    plain = json.loads(sys.argv[1])
    task = Task(plain)
    wall, cpu = time.perf_counter(), time.process_time()
    rows = {"mst": mst, "aim": aim}[plain["mechanism"]](task)
    facts = {
        "status": "ok",
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    np.savez(plain["result"], **{f"c{i}": rows[name] for i, name in enumerate(task.names)})
    print(json.dumps(facts))


if __name__ == "__main__":
    main()

"""The keystream, and every branch on which exactness hangs, forced with crafted random words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy._compile import compiled
from understudy.privacy import Gaussian, Laplace, SeededRandomness
from understudy.privacy.noise import bigint as _noise_bigint
from understudy.privacy.noise import kernels
from understudy.privacy.noise import noise as _noise_draw
from understudy.privacy.noise.randomness import BitReader
from understudy.privacy.noise.selection import bernoulli_exp


def called(kernel: Any) -> Any:
    """What only kernels can call, to be called from a test."""
    return compiled()(lambda *given: kernel(*given))


refill, below, product = called(kernels.refill), called(kernels.below), called(kernels._product)
coin_lazy, round_lazy = called(kernels._coin_lazy), called(kernels._rounded)

WORD = 2**64
ONES = 0xFFFFFFFF
U = np.uint64

# RFC 8439: key, words 12 to 15 of the state (counter and nonce), first words of the block.
VECTORS = [
    (bytes(32), (0, 0, 0, 0), "ade0b876 903df1a0 e56a5d40 28bd8653 b819d2bd 1aed8da0 ccef36a8 c70d778b"),
    (bytes(32), (1, 0, 0, 0), "bee7079f 7a385155 7c97ba98 0d082d73 a0290fcb 6965e348 3e53c612 ed7aee32"),
    (
        bytes(range(32)),
        (1, 0x09000000, 0x4A000000, 0),
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3 "
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2",
    ),
]


def block(state: Sequence[int]) -> list[int]:
    """One ChaCha20 block in Python integers."""
    x = list(state)

    def rotate(v: int, n: int) -> int:
        return ((v << n) | (v >> (32 - n))) & ONES

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & ONES
            x[r] = rotate(x[r] ^ x[p], n)

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & ONES for a, b in zip(x, state, strict=True)]


def buffer(stream: np.ndarray) -> np.ndarray:
    """The buffered keystream, one row per block."""
    return stream[kernels.HEADER :].reshape(16, kernels.LANES).T


def scripted(words: Sequence[int]) -> np.ndarray:
    """A stream that yields these 32-bit words and then the keystream of key zero."""
    stream = kernels.new_stream(bytes(32))
    stream[kernels.STREAM_SIZE - len(words) :] = words
    stream[kernels.POSITION] = 16 * kernels.LANES - len(words)
    return stream


def halves(*words: int) -> list[int]:
    """64-bit words as the pairs of 32-bit words the kernels assemble them from."""
    return [half for word in words for half in (word & ONES, word >> 32)]


@pytest.mark.parametrize(("key", "tail", "expected"), VECTORS, ids=["block-0", "block-1", "nonce"])
def test_keystream_matches_the_standard(key: bytes, tail: tuple[int, ...], expected: str) -> None:
    stream = kernels.new_stream(key)
    stream[12:16] = tail
    refill(stream)
    words = [int(word, 16) for word in expected.split()]
    assert buffer(stream)[0, : len(words)].tolist() == words


def test_every_buffered_block_is_a_block_of_the_keystream() -> None:
    stream = kernels.new_stream(bytes(range(100, 132)))
    stream[12] = 2**32 - kernels.LANES  # the counter carries into its high word after this refill
    state = [int(word) for word in stream[:16]]
    for _ in range(2):
        refill(stream)
        for b in range(kernels.LANES):
            counter = state[12] + (state[13] << 32) + b
            assert buffer(stream)[b].tolist() == block(
                [*state[:12], counter & ONES, counter >> 32, *state[14:]]
            )
        assert [int(word) for word in stream[12:14]] == [0, 1] or state[13] == 1
        state = [int(word) for word in stream[:16]]


def test_words_are_read_once_each_across_refills() -> None:
    stream, reference = kernels.new_stream(bytes(32)), kernels.new_stream(bytes(32))
    expected: list[int] = []
    for _ in range(3):
        refill(reference)
        expected += [int(word) for word in reference[kernels.HEADER :]]
    got = [int(below(stream, U(2**32 - 1))) for _ in range(2500)]
    # Multiplying by 2**32 - 1 and keeping the high half is the word less one (zero stays, if not rejected).
    assert got == [word - 1 for word in expected[:2500]]


@settings(deadline=None)
@given(st.integers(0, WORD - 1), st.integers(0, WORD - 1))
def test_product_is_the_128_bit_product(a: int, b: int) -> None:
    high, low = product(U(a), U(b))
    assert (int(high) << 64) + int(low) == a * b


@pytest.mark.parametrize("n", [3, 5, 7, 6, 1000, 2**31 + 1, 3 * 2**30, 2**32 - 1])
def test_below_keeps_equally_many_words_for_every_result(n: int) -> None:
    remainder, keep = 2**32 % n, 2**32 // n
    for h in {0, 1, n // 2, n - 1}:
        # Words with high part h and low part at least the remainder: `keep` of them, consecutive.
        first = -(-(h * 2**32 + remainder) // n)
        last = ((h + 1) * 2**32 - 1) // n
        assert last - first + 1 == keep
        for word in (first, last):
            assert int(below(scripted([word]), U(n))) == h
        if first > 0 and ((first - 1) * n) >> 32 == h:  # a word to reject: the next one is used
            assert int(below(scripted([first - 1] * 3 + [ONES]), U(n))) == n - 1


@pytest.mark.parametrize("n", [2**32, 2**33 + 5, 3 * 2**62, 2**63 + 1, WORD - 1])
def test_below_keeps_equally_many_words_for_large_ranges(n: int) -> None:
    remainder, keep = WORD % n, WORD // n
    for h in {0, 1, n // 2, n - 1}:
        first = -(-(h * WORD + remainder) // n)
        last = ((h + 1) * WORD - 1) // n
        assert last - first + 1 == keep
        for word in (first, last):
            assert int(below(scripted(halves(word)), U(n))) == h
        if first > 0 and ((first - 1) * n) >> 64 == h:
            assert int(below(scripted(halves(first - 1, first - 1, WORD - 1)), U(n))) == n - 1


def lazy(*digits: int) -> np.ndarray:
    """A lazy real with these base-2**64 digits known."""
    x = np.zeros(4, np.uint64)
    x[0] = len(digits)
    x[1 : 1 + len(digits)] = digits
    return x


@pytest.mark.parametrize("ties", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("below", [True, False])
def test_coin_of_a_lazy_real_extends_both_numbers_until_they_differ(ties: int, below: bool) -> None:
    first = 0x0123456789ABCDEF
    script: list[int] = []
    for j in range(ties):
        script += halves(first + j)  # digit j of the coin's uniform: equal
        script += halves(first + j + 1)  # digit j + 1 of x, drawn because of the tie
    script += halves(first + ties + (-1 if below else 1))
    heads, x = coin_lazy(scripted(script), lazy(first))
    assert heads == below
    # The digits drawn belong to x from now on, also where the array had to grow.
    assert x[: ties + 2].tolist() == [ties + 1, *range(first, first + ties + 1)]


@settings(deadline=None, max_examples=500)
@given(
    m=st.integers(1, 2**54 - 1),
    shift=st.integers(1, 62),
    k=st.integers(0, kernels.LEVEL_CAP - 1),
    place=st.floats(0, 1),
    nudge=st.sampled_from([-1, 0, 1]),
    fourth=st.sampled_from([0, 1, 2**62, WORD - 1]),
)
def test_rounding_is_exact_at_its_boundaries(
    m: int, shift: int, k: int, place: float, nudge: int, fourth: int
) -> None:
    sigma = Fraction(m, 2**shift)

    def rounded(x: Fraction) -> int:
        return math.floor(sigma * (k + x) + Fraction(1, 2))

    # Aim x within 2**-192 of a boundary between two results, if there is one in this level.
    lowest, highest = rounded(Fraction(0)) + 1, rounded(Fraction(1))
    target = Fraction(place) * Fraction(99, 100)
    if lowest <= highest:
        boundary = min(lowest + int(place * (highest - lowest)), highest)
        target = (boundary - Fraction(1, 2)) / sigma - k
    x = min(max(math.floor(target * WORD**3) + nudge, 0), WORD**3 - 1)
    first, second, third = x >> 128, (x >> 64) % WORD, x % WORD
    x = x * WORD + fourth
    expected = {rounded(Fraction(x, WORD**4)), rounded(Fraction(x, WORD**4) + Fraction(WORD - 1, WORD**5))}
    stream = scripted(halves(second, third, fourth))
    value, _ = round_lazy(stream, k, lazy(first), U(m), U(shift))
    assert int(value) in expected


def test_rounding_reads_a_second_digit_only_when_the_first_leaves_it_open() -> None:
    # sigma = 3, k = 0: the boundary between 0 and 1 is x = 1/6 = 0.2aaa... in base 16.
    first = WORD // 6
    for second, expected in ((WORD * 2 // 3 - 1, 0), (WORD * 2 // 3 + 1, 1)):
        value, x = round_lazy(scripted(halves(second)), 0, lazy(first), U(6), U(1))
        assert (int(value), int(x[0])) == (expected, 2)
    # Two digits on the boundary: a third decides. WORD * 2 // 3 = 0xaaaa..., and so on for ever.
    for third, expected in ((0, 0), (WORD - 1, 1)):
        script = halves(WORD * 2 // 3, third)
        value, x = round_lazy(scripted(script), 0, lazy(first), U(6), U(1))
        assert (int(value), int(x[0])) == (expected, 3)
    for neighbour, expected in ((first - 1, 0), (first + 1, 1)):
        value, x = round_lazy(scripted([]), 0, lazy(neighbour), U(6), U(1))
        assert (int(value), int(x[0])) == (expected, 1)


def test_a_gaussian_level_beyond_the_kernel_is_finished_in_big_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A word of ones makes coin(exp(-1/2)) succeed: 256 of them reach the cap.
    started: list[int] = []
    sampler = _noise_bigint.rounded_gaussian

    def spy(m: int, shift: int, reader: BitReader, *, start: int = 0) -> int:
        started.append(start)
        return sampler(m, shift, reader, start=start)

    monkeypatch.setattr(_noise_bigint, "rounded_gaussian", spy)
    stream = scripted([ONES] * kernels.LEVEL_CAP)
    monkeypatch.setattr(kernels, "new_stream", lambda key: stream)
    draws = Gaussian(10.0).draw(50, SeededRandomness(1))
    assert started == [kernels.LEVEL_CAP]
    assert np.all(np.abs(draws) < 200)  # P(otherwise) < 1e-80: the level was counted on, then refused


def test_a_laplace_tail_beyond_the_kernel_is_finished_in_big_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Words 1 and ones make coin(exp(-1)) succeed (0 of 2, then 2 of 3): 512 pairs reach the cap.
    stream = scripted([1, ONES] * kernels.STEP_CAP)
    monkeypatch.setattr(kernels, "new_stream", lambda key: stream)
    draws = Laplace(10.0).draw(20, SeededRandomness(1))
    assert abs(int(draws[0])) >= 10 * kernels.STEP_CAP
    assert np.all(np.abs(draws[1:]) < 1000)  # P(otherwise) < 1e-40
    assert not stream.any()  # the key does not outlive the draw


def test_a_long_run_of_unit_steps_stops_the_kernel() -> None:
    # Scale 1: Y counts successes of coin(exp(-1)); each costs a word for the empty fraction, and two more.
    out = np.zeros(1, np.int64)
    stream = scripted([5, 1, ONES] * 341)
    assert kernels.geometric(out, 0, stream, U(1), U(0), U(1), U(0), False) == 1
    assert out[0] >= 341
    assert out[0] < kernels.STEP_CAP


def test_resuming_counts_on_from_where_the_kernel_stopped() -> None:
    for t, s in ((3, 1), (1, 2)):
        reader = BitReader(SeededRandomness(3))
        values = [_noise_bigint.geometric(t, s, reader, start=512) for _ in range(20)]
        assert min(values) >= (512 * t // s if t > s else 512)
        assert max(values) < 600 * max(1, t // s)
    value = _noise_bigint.discrete_laplace(3, 1, BitReader(SeededRandomness(4)), start=512)
    assert abs(value) >= 1536


def test_intermediate_values_stay_within_64_bits_at_the_limits_of_the_kernels() -> None:
    m, cap = 2**53 - 1, kernels.LEVEL_CAP - 1
    shift = _noise_draw.MAX_DISCRETE_SHIFT
    assert cap * m + m + 2 * 2**shift < 2**63
    assert (2**53 - 1) * kernels.STEP_CAP + 2**53 < 2**63
    m, shift = 2**54 - 1, _noise_draw.MAX_ROUNDED_SHIFT
    assert cap * m + 2 ** (shift - 1) + m < 2**63


def test_scales_with_many_fractional_bits_take_the_big_integer_path(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(_noise_draw, "_in_bigint", lambda *a: calls.append("big"))
    monkeypatch.setattr(_noise_draw, "_in_kernel", lambda *a: calls.append("kernel"))
    source = SeededRandomness(0)
    for sigma in (2.0**-9 * 1.1, 2.0**-20, 1.1, 2.0**40):
        _noise_draw.rounded_gaussian(sigma, 1, source)
        _noise_draw.discrete_gaussian(sigma, 1, source)
    assert calls == ["kernel"] * 8
    for sigma in (2.0**-11 / 3, 2.0**-20 * 1.1):
        _noise_draw.rounded_gaussian(sigma, 1, source)
        _noise_draw.discrete_gaussian(sigma, 1, source)
    assert calls[8:] == ["big"] * 4
    _noise_draw.geometric(2.0**-20 * 1.1, 1, source, two_sided=True)
    assert calls[12:] == ["kernel"]


def test_exponential_coins_of_huge_and_trivial_exponents() -> None:
    source = SeededRandomness(0)
    assert bernoulli_exp(0, 10**40, (2, 2), source).all()
    assert not bernoulli_exp(10**50, 1, 50, source).any()
    assert bernoulli_exp(1, 10**30, 50, source).all()
    assert not bernoulli_exp(2**62, 1, 50, source).any()

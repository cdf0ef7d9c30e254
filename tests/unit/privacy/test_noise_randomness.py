"""Sources of random bits, exact uniform integers, and coins settled digit by digit."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import BudgetError
from understudy.privacy import SeededRandomness, SystemRandomness
from understudy.privacy.noise import bigint as _noise_bigint
from understudy.privacy.noise.randomness import BitReader, Randomness, below_many
from understudy.privacy.noise.selection import bernoulli_exp, coin_scaled_exp, exp_bounds


class Scripted:
    """Bytes written down in advance; reading past them is an error."""

    def __init__(self, script: bytes) -> None:
        self.script = script

    def bytes(self, n: int) -> bytes:
        if len(self.script) < n:
            raise AssertionError("read more randomness than the test provides")
        head, self.script = self.script[:n], self.script[n:]
        return head

    def words(self, n: int) -> np.ndarray:
        return np.frombuffer(self.bytes(8 * n), dtype="<u8").astype(np.uint64)


def reader_of(*words: int) -> BitReader:
    """A reader over 64-bit words, fetched one at a time."""
    return BitReader(Scripted(b"".join(word.to_bytes(8, "little") for word in words)), block_bytes=8)


@pytest.mark.parametrize("source", [SystemRandomness(), SeededRandomness(3)])
def test_sources_never_repeat_themselves(source: Randomness) -> None:
    assert isinstance(source, Randomness)
    assert len({source.bytes(32) for _ in range(100)}) == 100
    words = source.words(1000)
    assert words.dtype == np.uint64
    assert np.unique(words).size == 1000
    assert source.bytes(0) == b""
    assert source.words(0).size == 0


def test_system_randomness_has_no_state_to_share() -> None:
    assert not hasattr(SystemRandomness(), "__dict__")
    with pytest.raises(TypeError):
        SystemRandomness(1)  # type: ignore[call-arg]


def test_seeds_decide_everything() -> None:
    a, b, c = SeededRandomness(1), SeededRandomness(1), SeededRandomness(2)
    assert a.bytes(40) == b.bytes(40)
    assert np.array_equal(a.words(5), b.words(5))
    assert a.bytes(40) != c.bytes(40)
    assert "for tests only" in repr(a)
    assert SeededRandomness(10**30).bytes(4) != SeededRandomness(0).bytes(4)


@pytest.mark.parametrize("value", [-1, 1.5, None, True, "7"], ids=str)
def test_seeds_that_are_not_natural_numbers_are_refused(value: object) -> None:
    with pytest.raises(BudgetError):
        SeededRandomness(value)  # type: ignore[arg-type]


def test_bits_are_handed_out_once_and_in_order() -> None:
    source = SeededRandomness(8)
    expected = int.from_bytes(b"".join(SeededRandomness(8).bytes(16) for _ in range(1)), "little")
    reader = BitReader(source, block_bytes=16)
    sizes = [1, 7, 0, 64, 3, 53]
    value, shift = 0, 0
    for size in sizes:
        value |= reader.bits(size) << shift
        shift += size
    assert value == expected % (1 << shift)


def test_uniform_integers_reject_what_does_not_fit() -> None:
    # Three bits for n = 5: 7, 5 and 6 are refused, 4 is kept.
    assert reader_of(0b100_110_101_111).below(5) == 4
    assert reader_of(0).below(1) == 0
    # The same for many at once: two of ten words are wanted first, then one of ten again.
    words = [7, 5, 8 + 4, 6, 7, 5, 6, 7, 5, 6, 5, 6, 64 + 1, 0, 2, 3, 4, 1, 1, 1]
    script = Scripted(b"".join(word.to_bytes(8, "little") for word in [*words, *range(20)]))
    assert below_many(5, 2, script).tolist() == [4, 1]
    assert below_many(1, 0, Scripted(b"")).tolist() == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 64, 1000])
def test_many_uniform_integers_are_equally_likely(limit: int, seed: int) -> None:
    """Eight standard errors are passed with probability below 1e-12; a remainder instead of a rejection is 14 or more off."""
    drawn = below_many(limit, 200_000, SeededRandomness(seed))
    counts = np.bincount(drawn, minlength=limit)
    assert len(counts) == limit
    expected = 200_000 / limit
    assert np.abs(counts - expected).max() <= 8 * np.sqrt(expected * (1 - 1 / limit))


@settings(deadline=None)
@given(st.integers(0, 10**12), st.integers(1, 10**9), st.integers(64, 320))
def test_bounds_on_the_exponential_hold_and_are_tight(p: int, q: int, bits: int) -> None:
    low, high = exp_bounds(p, q, bits)
    assert low <= high
    assert high - low <= 4
    if p < 400 * q:
        with decimal.localcontext(decimal.Context(prec=250, Emax=10**6, Emin=-(10**6))) as context:
            value = (-decimal.Decimal(p) / decimal.Decimal(q)).exp() * decimal.Decimal(2) ** bits
            slack = value * decimal.Decimal(10) ** -240
            assert low <= value + slack
            assert high >= value - slack
            assert context.prec == 250
    else:
        assert (low, high) in {(0, 1), (0, 2)} or p <= bits * q


@pytest.mark.parametrize(("p", "q", "doublings"), [(1, 1, 0), (3, 4, 1), (10**20, 10**20 - 1, 1)])
def test_a_coin_on_the_edge_of_its_probability_reads_more_digits(p: int, q: int, doublings: int) -> None:
    low, _ = exp_bounds(p, q, 64 + doublings + 200)
    digits = low >> 200  # the first 64 binary digits of the probability
    rest = (low >> 136) % 2**64
    assert coin_scaled_exp(p, q, doublings, reader_of(digits - 1)) is True
    assert coin_scaled_exp(p, q, doublings, reader_of(digits + 1)) is False
    assert coin_scaled_exp(p, q, doublings, reader_of(digits, rest - 1)) is True
    assert coin_scaled_exp(p, q, doublings, reader_of(digits, rest + 1)) is False
    # Equal in 128 digits: the third word decides.
    assert coin_scaled_exp(p, q, doublings, reader_of(digits, rest, 0)) is True
    assert coin_scaled_exp(p, q, doublings, reader_of(digits, rest, 2**64 - 1)) is False


def test_a_coin_of_probability_one_reads_nothing() -> None:
    assert coin_scaled_exp(0, 7, 0, reader_of()) is True


def test_a_lazy_offset_in_big_integers_extends_on_a_tie() -> None:
    # Tie in the first word: the offset's second word, then the coin's second word, decide.
    for second, expected in ((99, True), (101, False)):
        offset = _noise_bigint._Lazy(reader_of(42, 42, 100, second))
        assert offset.coin() is expected
        assert (offset.x, offset.bits) == ((42 << 64) | 100, 128)
    # A later coin compares against all digits now known.
    offset = _noise_bigint._Lazy(reader_of(42, 42, 100, 99, 42, 100, 7, 6))
    assert offset.coin() is True
    assert offset.coin() is True
    assert offset.bits == 192


def test_rounding_in_big_integers_extends_until_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    # sigma = 3 and level 0: the boundary between 0 and 1 is 1/6, in digits 0x2aaa..., 0xaaaa..., ...
    monkeypatch.setattr(_noise_bigint, "_level", lambda reader, start: 0)
    monkeypatch.setattr(_noise_bigint, "_keep", lambda k, offset, reader: True)
    first, digit = 2**64 // 6, 2**65 // 3
    for words, expected in (
        ((first, digit - 1, 0), 0),
        ((first, digit + 1, 0), 1),
        ((first, digit, digit - 1, 0), 0),
        ((first, digit, digit + 1, 0), 1),
        ((first - 1, 0), 0),
        ((first + 1, 0), 1),
        ((first + 1, 1), -1),
    ):
        assert _noise_bigint.rounded_gaussian(3, 0, reader_of(*words)) == expected


@pytest.mark.parametrize(("p", "q"), [(-1, 2), (1, 0), (1, -3)])
def test_impossible_exponents_are_refused(p: int, q: int) -> None:
    with pytest.raises(BudgetError):
        bernoulli_exp(p, q, 1, SeededRandomness(0))

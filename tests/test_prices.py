"""What tokens cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsession import prices
from gitsession.errors import BadValue
from gitsession.prices import Tokens

MILLION = Tokens(1_000_000, 1_000_000, 1_000_000, 1_000_000)


def test_each_kind_of_token_has_its_price() -> None:
    known = prices.load()
    assert known.cost("claude-opus-4-6", MILLION) == pytest.approx(5 + 25 + 6.25 + 0.5)
    assert known.cost("claude-opus-4-6", Tokens(1200, 34)) == pytest.approx(0.00685)


def test_a_dated_name_costs_what_its_model_does() -> None:
    known = prices.load()
    assert known.of("claude-haiku-4-5-20251001") == known.of("claude-haiku-4-5") is not None
    assert known.of("claude-haiku-4-5-latest") is not None


@pytest.mark.parametrize("model", ["gpt", "claude", "claude-opus-4-6-turbo", "claude-opus-9", "", None])
def test_what_is_not_listed_has_no_price(model: str | None) -> None:
    assert prices.load().cost(model, MILLION) is None


def test_a_long_prompt_costs_more_where_it_does() -> None:
    known = prices.load()
    short, long = Tokens(60_000, 1000, 0, 40_000), Tokens(60_000, 1000, 1, 40_000)
    assert known.cost("claude-haiku-5-5", short) == pytest.approx((60_000 * 0.1 + 1000 * 0.5 + 40_000 * 0.01) / 1e6)
    assert known.cost("claude-haiku-5-5", long) == pytest.approx(
        (60_000 * 0.5 + 1000 * 2.5 + 0.625 + 40_000 * 0.05) / 1e6
    )


def test_the_configuration_comes_first(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[prices."my-model"]\ninput = 1\noutput = 2\n[prices.claude-opus-4-6]\ninput = 9\noutput = 9.5\n')
    known = prices.load(config)
    assert known.cost("my-model", MILLION) == pytest.approx(1 + 2 + 1 + 1)
    assert known.cost("claude-opus-4-6", Tokens(1_000_000, 0)) == 9
    assert known.of("claude-opus-4-5") is not None
    assert prices.load(tmp_path / "none.toml").of("my-model") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[prices.x]\ninput = 1\n", r'prices\."x" in .* needs \'input\' and \'output\''),
        ("[prices.x]\ninput = 1\noutput = -2\n", r'prices\."x"\.output in .* is not a price'),
        ("[prices.x]\ninput = true\noutput = 2\n", "is not a price"),
        ("[prices.x]\ninput = 1\noutput = 2\nlong = 5\n", "has no 'above'"),
        ("prices = 1\n", "is not a table"),
        ("[prices", "cannot read"),
    ],
)
def test_a_wrong_configuration_says_where(tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    with pytest.raises(BadValue, match=words):
        prices.load(config)

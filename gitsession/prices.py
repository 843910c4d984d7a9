"""What tokens cost: a dated table that comes with the package, and what a person's ``config.toml`` says instead.

A model's price is found by its name, or by its name without the date at its end.  In ``config.toml``::

    [prices."my-model"]
    input = 3           # US dollars for a million tokens
    output = 15
    cache_write = 3.75  # these two default to the price of input
    cache_read = 0.3
    long = { above = 100_000, input = 6, output = 22.5 }   # for prompts of more tokens than that; may be left out

What has no price costs an unknown amount, never nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession.errors import BadValue

_KINDS: Final = ("input", "output", "cache_write", "cache_read")
_DATE: Final = re.compile(r"-(?:\d{8}|latest)$")
_MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Tokens:
    """Tokens of one reply; ``input`` are those that were neither written to the cache nor read from it."""

    input: int
    output: int
    cache_write: int = 0
    cache_read: int = 0

    @property
    def prompt(self) -> int:
        """All that went in."""
        return self.input + self.cache_write + self.cache_read


@dataclass(frozen=True)
class Rates:
    """US dollars for a million tokens."""

    input: float
    output: float
    cache_write: float
    cache_read: float

    def cost(self, tokens: Tokens) -> float:
        """US dollars."""
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write * self.cache_write
            + tokens.cache_read * self.cache_read
        ) / _MILLION


@dataclass(frozen=True)
class Price:
    """A model's price: ``long`` instead of ``rates`` for prompts of more than ``above`` tokens."""

    rates: Rates
    above: int | None = None
    long: Rates | None = None

    def cost(self, tokens: Tokens) -> float:
        """US dollars."""
        if self.long is not None and self.above is not None and tokens.prompt > self.above:
            return self.long.cost(tokens)
        return self.rates.cost(tokens)


class Prices:
    """The prices in force."""

    def __init__(self, models: Mapping[str, Price]) -> None:
        self._models = models

    def of(self, model: str | None) -> Price | None:
        """The price of ``model``, ``None`` when it is not known."""
        if model is None:
            return None
        return self._models.get(model) or self._models.get(_DATE.sub("", model))

    def cost(self, model: str | None, tokens: Tokens) -> float | None:
        """US dollars, ``None`` when the price is not known."""
        price = self.of(model)
        return None if price is None else price.cost(tokens)


def load(config: Path | None = None) -> Prices:
    """The package's prices, and over them those of the file ``config``; ``BadValue`` names what cannot be read."""
    own = Path(__file__).with_suffix(".toml")
    models = _read(own, "models")
    if config is not None and config.exists():
        models |= _read(config, "prices")
    return Prices(models)


def _read(path: Path, table: str) -> dict[str, Price]:
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"cannot read {path}: {error}", hint="repair or remove the file") from None
    found = document.get(table, {})
    if not isinstance(found, dict):
        raise _bad(path, table, "is not a table of models")
    return {name: _price(path, f'{table}."{name}"', given) for name, given in found.items()}


def _price(path: Path, name: str, given: Any) -> Price:
    rates = _rates(path, name, given)
    long = given.get("long")
    if long is None:
        return Price(rates)
    above = long.get("above") if isinstance(long, dict) else None
    if not isinstance(above, int):
        raise _bad(path, f"{name}.long", "has no 'above', a number of tokens")
    return Price(rates, above, _rates(path, f"{name}.long", long))


def _rates(path: Path, name: str, given: Any) -> Rates:
    if not isinstance(given, dict) or not {"input", "output"} <= given.keys():
        raise _bad(path, name, "needs 'input' and 'output'")
    known = {"cache_write": given["input"], "cache_read": given["input"], **given}
    for kind in _KINDS:
        if type(known[kind]) not in (int, float) or known[kind] < 0:
            raise _bad(path, f"{name}.{kind}", "is not a price in US dollars for a million tokens")
    return Rates(**{kind: float(known[kind]) for kind in _KINDS})


def _bad(path: Path, name: str, what: str) -> BadValue:
    return BadValue(f"{name} in {path} {what}", hint="write it like input = 3, output = 15")

"""Times, durations, money and counts as people read them.

Times of day are local, or UTC where ``show_utc`` was called; JSON output keeps the record's UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def duration(seconds: float) -> str:
    """``12m 34s``, ``2h``, ``1d 3h``: the largest unit and the one below it, zeros left out."""
    rest = round(seconds)
    for place, (name, size) in enumerate(_UNITS):
        if rest >= size:
            count, rest = divmod(rest, size)
            below = _UNITS[place + 1 : place + 2]
            return " ".join([f"{count}{name}", *(f"{rest // unit}{small}" for small, unit in below if rest >= unit)])
    return "0s"


def age(moment: str, now: float) -> str:
    """How long before ``now`` (Unix seconds) a recorded moment was, in its largest unit; ``-`` if there is none."""
    return ages([moment], now)[0]


def ages(moments: Iterable[str], now: float) -> list[str]:
    """``age`` of each, quick for thousands."""
    here, parse = datetime.fromtimestamp(now, UTC), datetime.fromisoformat
    found = []
    for moment in moments:
        try:
            since = here - parse(moment)
        except (ValueError, TypeError):  # no moment, or one without its zone
            found.append("-")
            continue
        days, seconds = since.days, since.seconds
        if days > 0:
            found.append(f"{days}d")
        elif days < 0 or seconds == 0:
            found.append("0s")
        else:
            name, size = next(unit for unit in _UNITS if seconds >= unit[1])
            found.append(f"{seconds // size}{name}")
    return found


_zone: tzinfo | None = None  # None: the local one


def show_utc() -> None:
    """From now on times of day are UTC."""
    global _zone  # noqa: PLW0603 - one wish for the whole output
    _zone = UTC


def local(moment: str | float) -> datetime | None:
    """A recorded moment (or Unix seconds) in local time; ``None`` if it cannot be read."""
    try:
        at = datetime.fromtimestamp(moment, UTC) if isinstance(moment, float) else datetime.fromisoformat(moment)
    except (ValueError, TypeError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(_zone)


def date_time(moment: str | float) -> str:
    """``2026-02-25 10:00:00``, local; a moment that cannot be read stays as it is."""
    at = local(moment)
    return at.strftime("%Y-%m-%d %H:%M:%S") if at else str(moment)


def money(dollars: float | None) -> str:
    """``$0.87``, ``unknown`` where it is not known, four places below a cent."""
    if dollars is None:
        return "unknown"
    return f"${dollars:.4f}" if 0 < dollars < 0.01 else f"${dollars:.2f}"


def bytes_(number: int) -> str:
    """``512 B``, ``23.4 MB``; 1 KB is 1024 bytes."""
    size, unit = float(number), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{number} B" if unit == "B" else f"{size:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``12,500 tokens``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

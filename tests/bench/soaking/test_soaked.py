"""The definition of growth in a soak."""

from dataclasses import replace

from bench.soaking.soaked import Sample, Soaked, Start, growth, table
from records.units import MiB

FLAT = Sample(
    seconds=0,
    resident=50 * MiB,
    anonymous=40 * MiB,
    files=70,
    threads=8,
    log_size=9 * MiB,
    log_files=60,
    records=0,
    cpu_seconds=0,
)


def soaked(**grown: int) -> Soaked:
    """An hour with a sample a minute. Some figures grow by so much each minute."""
    samples = [
        replace(
            FLAT,
            seconds=60.0 * minute,
            **{n: getattr(FLAT, n) + minute * g for n, g in grown.items()},
        )
        for minute in range(60)
    ]
    return Soaked(samples, [Start(120.0 * number, 0.9) for number in range(30)], {})


def test_constant_and_expected_figures_are_no_growth() -> None:
    assert growth(soaked()) == []
    assert growth(soaked(records=12_000)) == []
    assert len(list(table(soaked().samples))) > 10


def test_steady_growth_is_reported() -> None:
    for name, each in (("anonymous", MiB // 2), ("files", 2), ("log_size", MiB), ("log_files", 5)):
        (output,) = growth(soaked(**{name: each}))
        assert output.startswith(f"{name}:")


def test_growth_during_the_warm_up_does_not_count() -> None:
    flat = soaked()
    early = [replace(one, anonymous=one.anonymous // 2) for one in flat.samples[:15]]
    assert growth(replace(flat, samples=early + flat.samples[15:])) == []


def test_starts_that_take_longer_and_longer_are_reported() -> None:
    starts = [Start(120.0 * number, 0.5 + number / 10) for number in range(30)]
    (output,) = growth(replace(soaked(), starts=starts))
    assert output.startswith("a start:")

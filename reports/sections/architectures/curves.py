"""Speedup against M, one panel per architecture on the same axes."""

from collections.abc import Mapping

from ... import formatting as fmt
from ...figures.axes import m_axis, octave_axis
from ...figures.chart import Axis, Chart, Data, Figure, Point, Series
from ...figures.marks import provider_legend
from ...model import Section
from ...view import Row, Slice, sliced
from .subject import Architectures

HOW = (
    "One panel per architecture, with the same axes. Each line is the geometric mean over shapes of the time of "
    "{baseline} divided by the time of that provider, both on the architecture of the panel; at every M over the "
    "shapes that have a ratio on each architecture with any. {band}Above the line at 1× a provider is faster than "
    "{baseline}. A line that ends has no ratio beyond; why, stands under “What could not run where”."
)

BAND = "The band runs from the mean of the lower to the mean of the upper ends of the intervals of {provider}. "


def curves(subject: Architectures) -> Section | None:
    """Build the figure of every slice with two M or more; None without any."""
    return sliced("curves", "Speedup against M", subject.slices, lambda part: (_figure(subject, part),))


def _figure(subject: Architectures, part: Slice) -> Figure | None:
    found = {
        (name, provider): means
        for name in subject.names
        for provider in subject.others
        if (means := subject.means(name, part, provider))
    }
    sizes = sorted({m for means in found.values() for m in means})
    if len(sizes) < 2:
        return None
    providers = [name for name in subject.others if any(provider == name for _, provider in found)]
    banded = next((name for name in subject.challengers if name in providers), "")
    drawn = [float(row["ratio"]) for means in found.values() for row in means.values()]
    for (_, provider), means in found.items():
        if provider == banded:
            drawn += [end for row in means.values() for end in _ends(row) or ()]
    x = m_axis(sizes, "M")
    y = octave_axis(
        min(*drawn, 1.0) / 1.15, max(*drawn, 1.0) * 1.15, fmt.tick_ratio, f"speedup over {subject.baseline}"
    )
    charts = tuple(
        _panel(subject, name, {p: m for (n, p), m in found.items() if n == name}, banded, x, y)
        for name in subject.names
    )
    title = f"Speedup over {subject.baseline} against M, one panel per architecture"
    return Figure(
        f"speedup-over-m-{part.id}",
        f"{title} ({part.title})",
        charts,
        how_to_read=HOW.format(baseline=subject.baseline, band=BAND.format(provider=banded) if banded else ""),
        alt=f"{title}. {'; '.join(chart.alt for chart in charts)}",
        legend=provider_legend(providers, subject.styles),
        multiples=True,
        detail=part.is_later,
        data=Data(
            ("architecture", "provider", "M", "gemms", "ratio", "ratio_low", "ratio_high"),
            tuple(
                (
                    name,
                    provider,
                    m,
                    int(row["gemms"]),
                    *(float(row[key]) for key in ("ratio", "ratio_low", "ratio_high")),
                )
                for (name, provider), means in found.items()
                for m, row in sorted(means.items())
            ),
        ),
    )


def _panel(
    subject: Architectures, name: str, means: Mapping[str, Mapping[int, Row]], banded: str, x: Axis, y: Axis
) -> Chart:
    series = tuple(
        Series(
            provider,
            subject.styles[provider],
            tuple(
                Point(m, float(row["ratio"]), name=f"{provider} on {name}, M={m}: {fmt.ratio(row['ratio'])}")
                for m, row in sorted(rows.items())
            ),
            band=tuple((float(m), *ends) for m, row in sorted(rows.items()) if (ends := _ends(row)))
            if provider == banded
            else (),
        )
        for provider, rows in means.items()
    )
    return Chart(
        title=name,
        x=x,
        y=y,
        series=series,
        corner=subject.views[name].device_name,
        level=1.0,
        alt=f"{name}: {', '.join(_said(line) for line in series) or 'no ratio'}",
    )


def _said(line: Series) -> str:
    ends = dict.fromkeys((line.points[0], line.points[-1]))
    return f"{line.label} " + " and ".join(f"{fmt.ratio(point.y)} at M={point.x:g}" for point in ends)


def _ends(row: Row) -> tuple[float, float] | None:
    """Both ends of an interval; None where there is none."""
    ends = float(row["ratio_low"]), float(row["ratio_high"])
    return ends if all(map(fmt.known, ends)) else None

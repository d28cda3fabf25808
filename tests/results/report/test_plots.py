"""What the plots show and how they are laid out."""

from pathlib import Path

import pytest

from pet_fairseq.results.report import plots
from pet_fairseq.results.report.checkpoint import Sizes
from pet_fairseq.results.report.compare import Comparison
from pet_fairseq.results.report.scoring import bleu_scorer
from pet_fairseq.results.report.seed_groups import RunGroup
from pet_fairseq.statistics import Sample


@pytest.fixture
def figures(monkeypatch):
    """The figures that the plot functions would save, by file name."""
    kept = {}
    monkeypatch.setattr(
        plots, "write_figure", lambda path, figure: kept.update({path.stem: figure})
    )
    return kept


def group(name, parameters=None, bleu=(), speed=()):
    sizes = Sizes(layer_parameters=parameters)
    scores = {beam: Sample([score]) for beam, score in dict(bleu).items()}
    return RunGroup(name, name, [], sizes, score=scores, sentences_per_second=dict(speed))


def comparison(groups):
    """With the first one, scored by BLEU."""
    return Comparison(groups, groups[0], groups[0], bleu_scorer(["a text"], Path("test.en")))


def lines(figure):
    """Label -> x and y values."""
    return {
        line.get_label(): list(zip(line.get_xdata(), line.get_ydata()))
        for line in figure.axes[0].lines
    }


def test_values(figures, tmp_path):
    groups = [
        group("teacher", 200, {1: 33.0, 4: 35.0, 5: 36.0}, {1: 100.0, 5: 20.0}),
        group("small", 20, {1: 31.0, 5: 32.5}, {1: 300.0, 5: 25.0}),
        group("large", 300, {5: 37.0}),
        group("unknown", None, {5: 30.0}),
    ]
    plots.write_plots(comparison(groups), tmp_path)
    assert lines(figures["bleu_over_rate"]) == {
        "teacher: 36.0": [(100.0, 36.0)],
        "small: 32.5": [(10.0, 32.5)],
        "large: 37.0": [(150.0, 37.0)],
    }
    assert figures["bleu_over_rate"].axes[0].get_xlim()[1] > 150
    assert lines(figures["speed_over_rate"]) == {
        "teacher: 1.00": [(100.0, 1.0)],
        "small: 1.25": [(10.0, 1.25)],
    }
    curves = lines(figures["bleu_over_beam"])
    assert list(curves) == ["teacher", "small", "large", "unknown"]
    assert curves["teacher"] == [(1, 33.0), (4, 35.0), (5, 36.0)]
    assert curves["small"] == [(1, 31.0), (5, 32.5)]


def test_a_method_at_several_rates_is_one_line(figures, tmp_path):
    groups = [
        group("teacher", 200, {1: 33.0, 5: 36.0}),
        *(group("pet", 20, {5: 32.5}), group("pet_at40", 80, {5: 34.0})),
        *(group("can_at5", 10, {5: 20.0}), group("can_at20", 40, {5: 28.0})),
        *(group("pet_at5", 11, {5: 31.0}), group("can_at40", None, {5: 29.0})),
        group("scratch", 20, {5: 30.0}),
    ]
    plots.write_plots(comparison(groups), tmp_path)
    curves = lines(figures["bleu_over_rates"])
    assert curves["pet"] == [(5.5, 31.0), (10.0, 32.5), (40.0, 34.0)]
    assert curves["can"] == [(5.0, 20.0), (20.0, 28.0)]
    assert set(curves) == {"pet", "can", "teacher: 36.0"}

    figures.clear()
    old = tmp_path / "bleu_over_rates.png"
    old.touch()
    plots.write_plots(comparison(groups[:3]), tmp_path)
    assert "bleu_over_rates" not in figures and not old.exists()


def bars(figure):
    """(x, lowest, highest) of the bars that have a length."""
    ends = [bar for drawn in figure.axes[0].collections for bar in drawn.get_segments()]
    return [(low[0], low[1], high[1]) for low, high in ends if low[1] != high[1]]


def test_bars_are_deviations_over_seeds(figures, tmp_path):
    groups = [
        group("teacher", 200, {1: 33.0, 4: 35.0, 5: 36.0}),
        *(group("pet", 20), group("pet_at40", 80, {5: 34.0}), group("pet_at60", 120, {5: 35.0})),
    ]
    groups[1].score.update({1: Sample([31.0]), 5: Sample([30.0, 32.0, 34.0])})
    plots.write_plots(comparison(groups), tmp_path)
    for name, x in (("bleu_over_rate", 10.0), ("bleu_over_beam", 5), ("bleu_over_rates", 10.0)):
        assert bars(figures[name]) == [(x, 30.0, 34.0)]


def test_sixteen_rows_are_told_apart(figures, tmp_path):
    """Different marks; the legend is inside the picture and covers no point."""
    groups = [group("teacher", 1000, {1: 33.0, 4: 34.2, 5: 35.1})]
    groups += [
        group(f"student {i} with a long title, of two lines", 96 + i, {1: 31.0, 4: 32, 5: 32 + i})
        for i in range(15)
    ]
    plots.write_plots(comparison(groups), tmp_path)
    for name in ("bleu_over_rate", "bleu_over_beam"):
        figure = figures[name]
        axes = figure.axes[0]
        assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == 16
        figure.draw_without_rendering()
        legend = axes.get_legend()
        assert len(legend.get_texts()) == 16
        left, bottom, right, top = legend.get_window_extent().extents
        width, height = figure.bbox.size
        assert axes.bbox.x1 <= left and right <= width and bottom >= 0 and top <= height
        assert axes.bbox.width > width / 2


def test_no_bar_where_nothing_was_measured(figures, tmp_path):
    groups = [group("a", speed={1: 120.0, 5: 3.4}), group("b", speed={1: 60.0}), group("c")]
    plots.plot_speed(groups, [1, 5], tmp_path / "speed.png")
    axes = figures["speed"].axes[0]
    assert [bar.get_width() for bar in axes.patches] == [120.0, 60.0, 3.4]
    assert [text.get_text() for text in axes.texts] == ["120", "60.0", "3.40"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b", "c"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first group at the top


def test_nothing_measured(figures, tmp_path):
    groups = [group("a"), group("b")]
    plots.write_plots(comparison(groups), tmp_path)
    assert set(figures) == {"bleu_over_rate", "speed_over_rate", "sentences_per_second"}
    assert not lines(figures["bleu_over_rate"])

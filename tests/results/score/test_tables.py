"""The tables over seeds, and over tasks and seeds, from made-up results."""

import json

import pytest

from pet_fairseq import cli
from pet_fairseq.errors import UserError
from pet_fairseq.results.score.tables import write_seeds_table, write_tasks_table


def write_run(folder, results, length=32, hits=None):
    """A folder as `pet-fairseq plugins` leaves it; results: trained, cost and score by name."""
    rows = []
    for name, (trained, cost, score) in results.items():
        rows.append({"name": name, "trained": trained, "scores": {"accuracy": score, "ppl": 1}})
        rows[-1] |= {} if cost is None else {"whole_cost": cost}
        (folder / name).mkdir(parents=True)
        result = {"accuracy": score, **({"by_sentence": hits[name]} if hits else {})}
        (folder / name / "result.json").write_text(json.dumps(result))
    (folder / "plugins.json").write_text(json.dumps({"length": length, "rows": rows}))
    return folder


def rows_of(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.fixture
def words(tmp_path):
    """A task with two seeds, and one with one that lacks a run."""
    model, plugins, narrow = (2000, 1.0, 90.0), (100, 0.5, 85.0), (1500, 0.25, 80.0)
    first = write_run(
        tmp_path / "a1",
        {"backbone": model, "k4": plugins, "narrow": narrow},
        hits={"backbone": "1111011111", "k4": "1101011011", "narrow": "1110000000"},
    )
    second = write_run(
        tmp_path / "a2",
        {"backbone": (2000, 1.0, 92.0), "k4": (100, 0.5, 88.0)},
        hits={"backbone": "1111011111", "k4": "1111011110"},
    )
    other = write_run(tmp_path / "b", {"backbone": (2000, 1.0, 60.0), "k4": (100, 0.7, 50.0)}, 64)
    return [f"sst2={first}", f"sst2={second}", f"rte={other}"]


def test_means_over_seeds_and_tasks(words, tmp_path):
    text = write_tasks_table(words, "backbone", tmp_path / "out.md")
    assert (tmp_path / "out.md").read_text() == text
    rows = rows_of(text)
    assert rows[0] == ["model", "sst2", "rte", "average", "trained parameters %", "FLOPs %"]
    assert rows[2] == ["backbone", "91.00 ± 1.41 (2)", "60.00", "75.50", "-", "-"]
    assert rows[3] == ["k4", "86.50 ± 2.12 (2)", "50.00", "68.25", "5.0", "56.7"]
    assert rows[4] == ["narrow", "80.00", "-", "-", "75.0", "25.0"]
    assert "sst2 32, rte 64" in text


def test_further_measures_of_a_task(words, tmp_path):
    """GLUE's for MRPC and CoLA; the average has the first measure of each task."""
    scores = {"accuracy": 80.0, "f1": 70.0, "matthews": 30.0}
    rows = [{"name": "backbone", "trained": 9, "scores": scores}]
    rows.append({"name": "k4", "trained": 9, "scores": {"accuracy": 60.0, "f1": 50.0}})
    (tmp_path / "cola").mkdir()
    content = json.dumps({"length": 32, "rows": rows})
    (tmp_path / "cola/plugins.json").write_text(content)
    found = rows_of(write_tasks_table([words[2], f"cola={tmp_path / 'cola'}"], "backbone"))
    assert found[0][1:6] == ["rte", "cola", "cola f1", "cola matthews", "average"]
    assert found[2][1:6] == ["60.00", "80.00", "70.00", "30.00", "70.00"]
    assert found[3][1:6] == ["50.00", "60.00", "50.00", "-", "55.00"]


def test_plugins_without_training_may_be_worse_than_chance(tmp_path):
    """Nothing is trained, and Matthews' correlation is below 0."""
    scores = {"accuracy": 10.0, "f1": 0.0, "matthews": -80.0}
    rows = [{"name": "backbone", "trained": 9, "scores": scores}]
    rows.append({"name": "mean_copy", "trained": 0, "scores": scores})
    (tmp_path / "plugins.json").write_text(json.dumps({"length": 32, "rows": rows}))
    found = rows_of(write_tasks_table([f"cola={tmp_path}"], "backbone"))
    assert found[3][1:4] == ["10.00", "0.00", "-80.00"]


def test_differences_by_sentence(words):
    rows = rows_of(write_tasks_table(words, "backbone"))
    header = rows.index(["model", "sst2", "rte"])
    k4, narrow = rows[header + 2 : header + 4]
    # of ten sentences two are lost with the first seed and one with the second
    assert k4[1].startswith("-15.00 [") and k4[2] == "-"
    assert narrow[1].startswith("-60.00 [") and narrow[1].endswith("p 0.000")
    assert len(rows) == header + 4


def test_older_results_have_neither_costs_nor_sentences(tmp_path):
    old = {"backbone": (9, None, 50.0), "k4": (3, None, 40.0)}
    rows = rows_of(write_tasks_table([f"x={write_run(tmp_path / 'x', old)}"], "backbone"))
    assert rows[2:] == [
        ["backbone", "50.00", "50.00", "-", "-"],
        ["k4", "40.00", "40.00", "33.3", "-"],
    ]


def test_refused(words, tmp_path, capsys):
    for wrong in ("sst2", "=x", "sst2="):
        with pytest.raises(UserError, match=f"{wrong}: give TASK=FOLDER"):
            write_tasks_table([wrong], "backbone")
    with pytest.raises(UserError, match=r"none/plugins.json: no such file; make it by pet-fairseq"):
        write_tasks_table(["a=none"], "backbone")
    with pytest.raises(UserError, match="a2: no run narrow; give --backbone NAME"):
        write_tasks_table(words, "narrow")
    for content in ("", "[]", '{"rows": []}', '{"length": 1, "rows": [{"name": "k4"}]}'):
        (tmp_path / "b/plugins.json").write_text(content)
        assert cli.main(["score", "tasks", *words]) == 1
        assert "b/plugins.json: not as pet-fairseq plugins writes it" in capsys.readouterr().err


# --- over seeds -----------------------------------------------------------------------------------


def test_names_are_those_of_folders(tmp_path):
    for seed, score in enumerate((50.0, 52.0), start=1):
        folder = tmp_path / f"k[4].seed{seed}"
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({"accuracy": score}))
    assert "| k[4] | 2 | 51.00 ± 1.41 |" in write_seeds_table(tmp_path, ["k[4]"])
    for name in (f"{tmp_path}/k[4]", "k4", ""):
        with pytest.raises(UserError, match=r"no scores of .*; finish its runs or leave it out"):
            write_seeds_table(tmp_path, [name])

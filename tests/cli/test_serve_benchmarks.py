"""The benchmarks of the server at the smallest size: what they count; times are not judged."""

import csv
import json
import os
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from tests.cli.processes import REPO, run
from tests.cli.test_benchmarks import SCRIPTS, table
from tests.predict.made import make_classifier
from tests.predict.test_predictor import TEXTS, answering

WRONG = 3  # of the labels


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def files(made, tmp_path):
    """Twelve texts, and the classes that the model gives to nine of them."""
    texts = [f"{text} w{i}" for i in range(3) for text in TEXTS]
    labels = [answer["label"] for answer in answering(made).predict(texts, compression_ratio=1)]
    labels[:WRONG] = ["bad" if label != "bad" else "good" for label in labels[:WRONG]]
    (tmp_path / "texts").write_text("".join(f"{line}\n" for line in texts))
    (tmp_path / "labels").write_text("".join(f"{line}\n" for line in labels))
    return ("--texts", tmp_path / "texts", "--labels", tmp_path / "labels")


def test_what_is_written(tmp_path, monkeypatch, capsys):
    """Without servers: ratios are taken within rounds, differences within texts."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import serve_accuracy
    from served import Server

    def measured(name, hits, rates):
        run, *helps = name.split("+")
        spec = serve_accuracy.Spec(run, tuple(helps), ())
        model = serve_accuracy.Measured(spec, Server("", None), hits, rates, [0.002, 0.003, 0.009])
        model.seconds, model.starved = [0.01 * i for i in range(1, 101)], [0.5, 0.25]
        return model

    models = [
        measured("backbone", [True] * 9 + [False], [10, 40, 20]),
        measured("k4+int8", [True] * 7 + [False] * 2 + [True], [20, 60, 60]),
    ]
    args = Namespace(out=tmp_path, runs=Path("runs"), texts=Path("texts"))
    serve_accuracy.write(models, args, "Texts.")
    text = (tmp_path / "serving.md").read_text()
    assert text == capsys.readouterr().out and text.startswith("Texts.\n")
    base, other = table(text, "model")[2:]
    assert base[:4] == ["backbone", "-", "90.00", "+0.00"] and base[6:8] == ["20.0", "1.0"]
    assert other[:4] == ["k4", "int8", "80.00", "-10.00"]
    assert float(other[4]) < -10 < float(other[5])
    assert other[6:] == ["60.0", "2.0", "1.5", "3.0", "3.00", "950", "38"]
    sheet = list(csv.DictReader((tmp_path / "serving.csv").open()))
    assert [float(row["of backbone's"]) for row in sheet] == [1, 2]
    assert (tmp_path / "serving.png").stat().st_size > 1000


@pytest.fixture
def runs(made, tmp_path):
    """Two finished runs of a recipe: the model, and plugins for it."""
    runs = tmp_path / "runs"
    for name, source in (("backbone", made.backbone), ("k2", made.plugins[0])):
        (runs / name).mkdir(parents=True)
        shutil.copy(source, runs / name / "checkpoint_best.pt")
        (runs / name / "result.json").write_text(json.dumps({"accuracy": 50}))
    run("pet-fairseq", "plugins", runs, "--length", "8")
    return runs


@pytest.mark.slow
def test_processor_time_of_answers(runs, files):
    models = ("backbone", "k2+bf16", "backbone+int8+length")
    options = (*files[:2], "--tiny", "--models", *models)
    output = run("python", SCRIPTS / "answers.py", runs, *options).output
    header, _, *rows = table(output, "model")
    assert [row[:2] for row in rows] == [
        ["backbone", "-"],
        ["k2", "bf16"],
        ["backbone", "int8 length"],
    ]
    assert header[6] == "padding %" and rows[0][3] == "1.0"
    assert all(float(row[2]) > 0 for row in rows) and float(rows[2][6]) < float(rows[0][6])


@pytest.mark.slow
def test_accuracy_over_requests(runs, files, tmp_path):
    models = ("backbone", "backbone+int8", "k2+int8+length")
    script = SCRIPTS / "serve_accuracy.py"
    output = run("python", script, runs, *files, "--tiny", "--models", *models).output
    rows = table(output, "model")
    served = [" ".join(row[:2]) for row in rows[2:]]
    assert served == ["backbone -", "backbone int8", "k2 int8 length"]
    accuracy = 100 * (len(TEXTS) * 3 - WRONG) / (len(TEXTS) * 3)
    assert rows[2][2] == f"{accuracy:.2f}" and rows[2][3] == "+0.00" and rows[2][7] == "1.0"
    sheet = list(csv.DictReader((runs / "serving/serving.csv").open()))
    assert [row["model"] for row in sheet] == ["backbone", "backbone", "k2"]
    assert float(sheet[0]["accuracy %"]) == accuracy
    assert all(float(row["requests/s"]) > 0 and float(row["p95 ms"]) > 0 for row in sheet)
    assert (runs / "serving/serving.png").stat().st_size > 1000
    for wrong, message in (
        ("k3", "--models k3: no run k3; give some of backbone, k2"),
        ("k2+int4", r"--models k2+int4: give no other options than int8, bf16, length"),
    ):
        result = run("python", script, runs, *files, "--models", wrong, check=False)
        assert result.status == 1 and result.output.splitlines()[-1] == message
    result = run("python", script, tmp_path, *files, check=False)
    assert "plugins.json: no such file; make it by pet-fairseq plugins" in result.output
    assert "Traceback" not in result.output
    (tmp_path / "labels").write_text("bad\n")
    result = run("python", script, runs, *files, "--models", "k2", check=False)
    assert "labels: 1); give others" in result.output.splitlines()[-1]


@pytest.mark.slow
def test_the_scheduler_delivers_an_accuracy(made, files):
    path = os.pathsep.join(made.plugins)
    options = ("--path", path, *files, "--tiny", "--ratios", "2", "4", "--batch-tokens", "40")
    output = run("python", SCRIPTS / "serve.py", *options, "--seconds", "2").output
    header, _, *rows = table(output, "load")
    assert header[9] == "accuracy %" and len(rows) == 4
    assert all(0 <= float(row[9]) <= 100 for row in rows)
    assert rows[1][2] == "1"


@pytest.mark.slow
def test_the_scheduler_with_random_weights():
    header, _, *rows = table(run("python", SCRIPTS / "serve.py", "--tiny").output, "load")
    assert "accuracy %" not in header and len(rows) == 4


@pytest.mark.slow
@pytest.mark.parametrize("of_ones_own", [False, True])
def test_new_words(of_ones_own, made):
    """Memory is not judged over so few."""
    script = REPO / "scripts/reliability/new_words.py"
    path = ("--path", made.backbone) if of_ones_own else ()
    output = run("python", script, "--requests", "300", *path, check=False).output
    rows = table(output, "requests")
    assert rows[-1][0] == "300" and rows[2][0] == "0"
    assert 8 * 300 <= int(rows[-1][1].replace(",", "")) <= 16 * 300
    assert "300 answers to" in output
    assert [li for li in output.splitlines() if li.startswith("* ") and "memory" not in li] == []

"""The benchmarks that no other test runs, as documented but tiny: their tables, not their times."""

import json
import os

import pytest

from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, run
from tests.export.translators import make, sentence_pieces
from tests.packages import need
from tests.predict.made import make_classifier

SCRIPTS = REPO / "scripts/benchmarks"


def table(output, first):
    """The cells of the table whose head begins so, head and line below it included."""
    return cells(output[output.index(f"| {first} |") :].split("\n\n")[0])


def tables(output):
    """The cells of the rows of all tables, without their heads."""
    rows = cells(output)
    heads = [i for i, row in enumerate(rows) if set("".join(row)) <= set("-:")]
    return [row for i, row in enumerate(rows) if i not in heads and i + 1 not in heads]


def cells(text):
    rows = [line for line in text.splitlines() if line.startswith("|")]  # others are the log's
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


# --- translation ----------------------------------------------------------------------------------


def decoding(out, *options):
    """The rows of the table, and what the script writes beside it."""
    output = run("python", SCRIPTS / "decoding.py", "--tiny", "--out", out, *options).output
    assert "left out" not in output and (out / "decoding.png").stat().st_size > 1000
    assert set((out / "decoding.md").read_text().splitlines()) <= set(output.splitlines())
    assert len(json.loads((out / "decoding.json").read_text())) == len(tables(output))
    return [row[:4] for row in tables(output)]


@pytest.mark.slow
def test_decoding_of_random_weights(tmp_path):
    pytest.importorskip("ctranslate2")
    engines = ["fairseq", "fast", "ctranslate2", "ctranslate2 int8"]
    engines += [f"{engine}, shared" for engine in engines[2:]]
    assert decoding(tmp_path / "out", "--engines", *engines) == [
        ["pet", beam, size, engine] for beam in "15" for size in "13" for engine in engines
    ]


@pytest.mark.slow
def test_decoding_of_a_checkpoint(teacher, data, tmp_path):
    """With the engines that lack a part of the fast one, as docs/results/decoding.md shows."""
    engines = ["fast", "fairseq", "own decoder", "one block", "plain topk"]
    engines += ["dropped at once", "never dropped", "no inference mode"]
    options = ("--data", data, "--beams", "5", "--engines", *engines)
    assert decoding(tmp_path / "out", "--models", f"tiny={teacher}", *options) == [
        ["tiny", "5", size, engine] for size in "13" for engine in engines
    ]


def test_decoding_of_a_checkpoint_without_data(tmp_path):
    options = ("--out", tmp_path / "out", "--models", "tiny=teacher.pt")
    result = run("python", SCRIPTS / "decoding.py", *options, check=False)
    line = result.output.splitlines()[-1]
    assert result.status == 2 and line.endswith(
        "--models NAME=FILE: give with --data the folder of its test set"
    )


@pytest.mark.slow
def test_engines(tmp_path):
    """One model in three engines: a row for each, batch size and beam; the same translations."""
    need("ctranslate2", "transformers")
    made = make(tmp_path / "data", "marian_student", sentence_pieces, share_all_embeddings=True)
    models = {"fairseq": made.checkpoint}
    for engine in ("ctranslate2", "huggingface"):
        models[engine] = tmp_path / engine
        options = ("--data", made.data, "--to", engine, "--out", models[engine])
        run("pet-fairseq", "export", made.checkpoint, *options)
    text = tmp_path / "text"
    text.write_text("a house\n" * 3 + "a b c\n")
    words = [f"{name}={path}" for name, path in models.items()]
    options = ("--data", made.data, "--reference", text, "--models", *words)
    rows = tables(run("python", SCRIPTS / "engines.py", text, "--tiny", *options).output)
    assert [row[:3] for row in rows] == [["1", size, name] for size in "13" for name in models]
    assert rows[0][4] == "1.0" and len({row[5] for row in rows}) == 1


def test_pronunciations(tmp_path):
    """A student in CTranslate2 beside a g2p-en that says the same of every word."""
    need("ctranslate2", "rapidfuzz")
    made = make(tmp_path / "data", "transformer", lambda folder: ["a", "b", "c"])
    options = ("--data", made.data, "--to", "ctranslate2", "--out", tmp_path / "engine")
    run("pet-fairseq", "export", made.checkpoint, *options)
    package = tmp_path / "site/g2p_en"
    package.mkdir(parents=True)
    (package / "checkpoint20.npz").write_bytes(b"x" * 2000)
    (package / "__init__.py").write_text(
        "class G2p:\n    def predict(self, word):\n        return ['K', 'AE1', 'T'][: len(word)]\n"
    )
    words, spoken = tmp_path / "letters", tmp_path / "pronunciations"
    words.write_text("c a t\nc a b\nc a\nb a c\n")
    spoken.write_text("K AE T\tK AA T\nK AE B\nK AE\nB AE K\n")
    given = ("--tiny", "--models", f"student={tmp_path / 'engine'}")
    script = ("python", SCRIPTS / "pronunciations.py", words, spoken, *given)
    environment = {"PYTHONPATH": f"{tmp_path / 'site'}:{REPO}"}
    ours, theirs = tables(run(*script, env={**os.environ, **environment}).output)
    assert ours[:3] == ["student", "1", "3"] and ours[7] == "1.0"
    assert theirs[:6] == ["g2p-en", "1", "1", "2", "50.0", "27.27"]  # 3 of 11 phones
    words.write_text("c a t\n")
    refused = run(*script, check=False)
    assert refused.status == 1 and "give files of the same words" in refused.output


def test_translate_file(tmp_path):
    """Beside CTranslate2's own command for files: a row for each beam."""
    pytest.importorskip("ctranslate2")
    made = make(tmp_path / "data", "marian_student", sentence_pieces, share_all_embeddings=True)
    engine, text = tmp_path / "engine", tmp_path / "text"
    options = ("--data", made.data, "--to", "ctranslate2", "--out", engine)
    run("pet-fairseq", "export", made.checkpoint, *options)
    text.write_text("a house\n" * 3 + "a b c\n")
    ((beam, *figures),) = tables(
        run("python", SCRIPTS / "translate_file.py", engine, text, "--tiny").output
    )
    assert beam == "1" and all(float(figure.replace(",", "")) > 0 for figure in figures)


def test_attention(tmp_path):
    run("python", SCRIPTS / "attention.py", "--tiny", "--out", tmp_path / "out.md")
    text = (tmp_path / "out.md").read_text()
    rows = tables(text)
    assert "steps, training" in text and [row[:2] for row in rows] == [
        [dtype, length] for dtype in ("bfloat16", "float32") for length in ("3", "20")
    ]
    assert all(float(time) >= 0 for row in rows for time in row[2:])


@pytest.mark.slow
def test_distillation(tmp_path):
    figures = tmp_path / "figures.json"
    output = run("python", SCRIPTS / "distillation.py", "--tiny", "--json", figures).output
    assert [row[0] for row in tables(output)] == ["plain", "ours"]
    assert json.loads(figures.read_text())["gradient_difference"] < 1e-5


@pytest.mark.slow
def test_allocator(data):
    options = (data, "--arch", "transformer_tiny", *CROSS_ENTROPY, *TRAIN)
    output = run("python", SCRIPTS / "allocator.py", "--tiny", "--", *options).output
    assert [row[0] for row in tables(output)] == ["as it is", "memory kept"]
    assert "speed with the memory kept: " in output and "(median of 1 pairs)" in output


# --- classifiers, prompts -------------------------------------------------------------------------


def test_variators_encoder(tmp_path):
    rows = tables(run("python", SCRIPTS / "variator.py", "--tiny").output)
    assert [row[:2] for row in rows] == [[length, k] for length in ("8", "16") for k in "12"]
    assert [row[4] for row in rows if row[1] == "1"] == ["1.000", "1.000"]
    assert all(float(row[4]) < 1 for row in rows if row[1] == "2")


def test_variators_encoder_of_a_checkpoint(tmp_path):
    path = make_classifier(tmp_path).backbone
    options = ("--tiny", "--path", path, "--ratios", "4", "--lengths", "16")
    rows = tables(run("python", SCRIPTS / "variator.py", *options).output)
    assert [row[:2] for row in rows] == [["16", "1"], ["16", "4"]]


def test_bank():
    output = run("python", SCRIPTS / "bank.py", "--tiny").output
    assert output.startswith("300 demonstrations, 4 shots")
    assert [row[:2] for row in tables(output)] == [[w, n] for w in ("8", "16") for n in "12"]


@pytest.mark.slow
def test_shots():
    out = run("python", SCRIPTS / "shots.py", "--tiny", "--shots", "1", "3").output
    rows = table(out, "shots")[2:]
    assert [row[0] for row in rows] == ["1", "3"]
    # </s>, a query of 8 and a prompt of 16, behind demonstrations of 40 tokens or ceil(40 / 12) = 4
    assert [row[1] for row in rows] == [f"{25 + 40 * n}" for n in (1, 3)]
    assert [row[4] for row in rows] == [f"{25 + 4 * n}" for n in (1, 3)]
    assert all(float(row[i]) > 0 for row in rows for i in (2, 5, 7))


@pytest.mark.slow
def test_ways_to_read():
    out = run("python", SCRIPTS / "selfcp.py", "--tiny", "--lengths", "512", "2048").output
    costs = {row[0]: float(row[5]) for row in table(out, "way")[2:]}
    assert costs["full"] == 1 and costs["truncated"] < 0.5  # 16 of 64 tokens, and what all share
    assert [row[:2] for row in table(out, "tokens to compress")[2:]] == [
        [length, number] for length in ("512", "2048") for number in ("2", "4", "8", "16")
    ]


@pytest.mark.slow
@pytest.mark.cold  # it measures the memory of the processes that it starts
def test_corpus(tmp_path):
    """A row for each number of processes, which write the same pairs."""
    pytest.importorskip("ctranslate2")
    sheet = tmp_path / "corpus.csv"
    output = run("python", SCRIPTS / "corpus.py", "--tiny", "--csv", sheet).output
    assert output.startswith("300 lines in 0.0 MB of text, greedy, int8")
    rows = tables(output)
    assert [row[0] for row in rows] == ["1", "2"] and rows[0][1] == rows[1][1]
    assert all(float(cell) > 1 for row in rows for cell in row[3:7])
    assert len(sheet.read_text().splitlines()) == 3

"""examples/glue/prepare.sh: questions with answers, sentences with classes; offline."""

import gzip
import os
import shutil

import pytest

from tests.cli.glue.tables import (
    ARCHIVES,
    QUESTIONS,
    RECIPE,
    draw_rows,
    hold_out,
    is_raw,
    lines,
    pack,
    pair,
    rte_xml,
    table,
)
from tests.cli.processes import BIN
from tests.cli.shell import sh

pytestmark = pytest.mark.slow


@pytest.mark.paper
@pytest.mark.parametrize("task", QUESTIONS)
def test_dry_run_prints_commands_and_writes_nothing(task, tmp_path):
    env = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1"}
    out = sh(RECIPE, task, **env, RAW_TEXT="some.txt").stdout
    commands = {line.split()[1] for line in out.splitlines() if line.startswith("+ ")}
    assert {"curl", "subword-nmt", "fairseq-preprocess"} <= commands and "tokenise.py" in out
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)
    name = ARCHIVES.get(task, "mrpc_dev_ids.tsv")
    assert f"https://dl.fbaipublicfiles.com/glue/data/{name}" in out
    assert ("input1" in out) == (task not in ("sst2", "cola")) and "raw_text.tmp" in out
    assert not list(tmp_path.iterdir())
    only = sh(RECIPE, task, **env, STAGES="text").stdout
    assert "--target-lang answer" in only and "curl" not in only and "input0" not in only


@pytest.mark.parametrize("task", ARCHIVES)
def test_archives(task, env, tmp_path):
    """What a download brings: dev is the test set, a part of train is for validation."""
    train, dev = draw_rows(task, 1000, 1), draw_rows(task, 9, 2)
    name = "dev_matched" if task == "mnli" else "dev"
    members = {"train.tsv": table(task, train), f"{name}.tsv": table(task, dev)}
    members["test.tsv"] = "index\tsentence\n0\twithout a label\n"
    if task == "cola":  # the authors' files are in GLUE's archive, too
        members["original/raw/in_domain_train.tsv"] = "no table"
        members["original/tokenized/train.tsv"] = "no table"
    pack(tmp_path / "public" / ARCHIVES[task], {f"X/{name}": t for name, t in members.items()})
    sh(RECIPE, task, **env, MIRROR=f"file://{tmp_path}/public", STAGES="raw")
    kept, valid = hold_out(train)
    assert 200 <= len(valid) < 450
    assert is_raw(tmp_path / "out/raw", task, {"train": kept, "valid": valid, "test": dev})


def test_every_20th_sentence_of_many_is_for_validation(env, tmp_path):
    train, dev = draw_rows("sst2", 7000, 1), draw_rows("sst2", 3, 2)
    (tmp_path / "train.tsv").write_text(table("sst2", train))
    (tmp_path / "dev.tsv").write_text(table("sst2", dev))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    kept, valid = hold_out(train)
    assert 300 < len(valid) < 400
    assert is_raw(tmp_path / "out/raw", "sst2", {"train": kept, "valid": valid, "test": dev})


@pytest.mark.parametrize(("count", "held_out"), [(3, 1), (799, 266), (800, 200)])
def test_200_sentences_are_for_validation_if_there_are_enough(count, held_out, env, tmp_path):
    rows = [((f"sentence {number}",), "1") for number in range(count)]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(table("sst2", rows))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    assert len(lines(tmp_path / "out/raw/valid.label")) == held_out
    assert len(lines(tmp_path / "out/raw/train.label")) == count - held_out


def test_three_gzipped_tables_with_labels(env, tmp_path):
    sets = {
        split: draw_rows("sst2", 20, seed) for seed, split in enumerate(("train", "dev", "test"))
    }
    for split, rows in sets.items():
        text = table("sst2", rows).replace("\n", "\r\n") if split == "dev" else table("sst2", rows)
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    sets["valid"] = sets.pop("dev")
    assert is_raw(tmp_path / "out/raw", "sst2", sets)


def test_rte_in_xml(env, tmp_path):
    """Development sets are for training; the label has another name in each challenge."""
    values = ['value="TRUE"', 'value="FALSE"', 'entailment="YES"', 'entailment="NO"']
    values += ['entailment="UNKNOWN"', 'entailment="CONTRADICTION"', 'entailment="ENTAILMENT"']
    yes = ("TRUE", "YES", "ENTAILMENT")
    files, sets = {}, {"dev": [], "test": []}
    for name in ("rte1_dev", "rte2_dev", "rte1_test"):
        pairs = []
        for number, value in enumerate(values * 2):
            text, hypothesis = f"{name} text {number}", f"it &amp;\nis {number}"
            pairs.append(pair(number, text, hypothesis, value))
            label = "entailment" if value.split('"')[1] in yes else "not_entailment"
            sets[name[5:]].append(((text, f"it & is {number}"), label))
        files[f"rte/{name}.xml"] = rte_xml(pairs)
    pack(tmp_path / "rte.zip", files)
    sh(RECIPE, "rte", tmp_path, **env, STAGES="raw")
    train, valid = hold_out(sets["dev"])
    assert len(valid) == 14
    assert is_raw(
        tmp_path / "out/raw", "rte", {"train": train, "valid": valid, "test": sets["test"]}
    )


@pytest.mark.parametrize("numbered", [True, False])
def test_mrpc(numbered, env, tmp_path):
    """With the numbers of GLUE's dev set that is the test set, without them MRPC's own."""
    rows, own_test = draw_rows("mrpc", 60, 1), draw_rows("mrpc", 7, 2)
    path = tmp_path / "msr_paraphrase_train.txt"
    path.write_text("\ufeff" + table("mrpc", rows).replace("\n", "\r\n"), newline="")
    dev = range(0, 60, 9)
    if numbered:
        text = "".join(f"1{number}\t2{number}\n" for number in dev)
        (tmp_path / "mrpc_dev_ids.tsv").write_text(text)
    (tmp_path / "msr_paraphrase_test.txt").write_text(table("mrpc", own_test))
    sh(RECIPE, "mrpc", tmp_path, **env, STAGES="raw")
    test = [rows[number] for number in dev] if numbered else own_test
    train, valid = hold_out([row for i, row in enumerate(rows) if i not in dev or not numbered])
    assert is_raw(tmp_path / "out/raw", "mrpc", {"train": train, "valid": valid, "test": test})


def test_gzipped_and_plain_files_together(env, tmp_path):
    rows, test = draw_rows("mrpc", 60, 1), draw_rows("mrpc", 7, 2)
    zipped = gzip.compress(table("mrpc", rows).encode())
    (tmp_path / "msr_paraphrase_train.txt.gz").write_bytes(zipped)
    (tmp_path / "msr_paraphrase_test.txt").write_text(table("mrpc", test))
    sh(RECIPE, "mrpc", tmp_path, **env, STAGES="raw")
    train, valid = hold_out(rows)
    assert is_raw(tmp_path / "out/raw", "mrpc", {"train": train, "valid": valid, "test": test})


@pytest.mark.parametrize("name", ["cola_public_1.1.zip", "cola_public.zip"])
def test_cola_of_its_authors(name, env, tmp_path):
    """Both dev sets are for testing, and the tokenised tables are not read."""
    rows, dev, other = (draw_rows("cola", count, count) for count in (60, 7, 5))
    parts = {"in_domain_train": rows, "in_domain_dev": dev, "out_of_domain_dev": other}
    members = {f"raw/{part}.tsv": table("cola", some) for part, some in parts.items()}
    members |= {f"tokenized/{part}.tsv": "no table" for part in parts}
    pack(tmp_path / name, {f"cola_public/{name}": text for name, text in members.items()})
    sh(RECIPE, "cola", tmp_path, **env, STAGES="raw")
    train, valid = hold_out(rows)
    sets = {"train": train, "valid": valid, "test": dev + other}
    assert is_raw(tmp_path / "out/raw", "cola", sets)

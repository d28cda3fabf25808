"""What examples/glue/prepare.sh refuses, and the little that it leaves out."""

import gzip

import pytest

from tests.cli.glue.tables import RECIPE, draw_rows, hold_out, is_raw, pack, pair, rte_xml, table
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def test_bad_tables(env, tmp_path):
    good = {
        "train": table("sst2", draw_rows("sst2", 50, 1)),
        "dev": table("sst2", draw_rows("sst2", 5, 2)),
    }

    def bad(name, text, *texts):
        for split, content in {**good, name: text}.items():
            (tmp_path / f"{split}.tsv").write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        refuses(
            sh(RECIPE, "sst2", tmp_path, check=False, **env, STAGES="raw"), f"{name}.tsv", *texts
        )
        assert not list((tmp_path / "out").glob("raw*"))

    bad("train", good["train"].replace("label", "sense", 1), "no column label", "sentence, sense")
    bad("train", good["train"] + "a sentence\t2\n", "line 52: label '2'", "not one of 0, 1")
    bad("dev", good["dev"] + "cut\n", "line 7 has 1 columns, not 2")
    bad("dev", "", "no column sentence")
    bad("dev", "sentence\tlabel\n", "no examples for test")
    bad("train", "sentence\tlabel\nx\t1\n", "no examples for valid")
    bad("train", good["train"].encode("utf-16"), "not UTF-8 at byte 0")


def test_bad_tables_without_a_header(env, tmp_path):
    """Lines are counted from the first one, which is an example."""

    def bad(train, *texts):
        (tmp_path / "train.tsv").write_text(train)
        (tmp_path / "dev.tsv").write_text(table("cola", draw_rows("cola", 5, 2)))
        result = sh(RECIPE, "cola", tmp_path, check=False, **env, STAGES="raw")
        refuses(result, "train.tsv", *texts)
        assert not list((tmp_path / "out").glob("raw*"))

    good = table("cola", draw_rows("cola", 50, 1))
    bad(good + "gj04\t2\t\tA.\n", "line 51: label '2', not one of 0, 1")
    bad("gj04\t2\t\tA.\n" + good, "line 1: label '2', not one of 0, 1")
    bad("cut\n" + good, "line 1 has 1 columns, not 4")
    bad("", "line 1 has 1 columns, not 4")


def test_a_few_broken_lines_are_left_out(env, tmp_path):
    rows = draw_rows("qqp", 2500, 1)
    text = table("qqp", rows) + "1\t2\t3\ta question that\nis cut\t0\n"
    (tmp_path / "train.tsv").write_text(text)
    (tmp_path / "dev.tsv").write_text(table("qqp", rows[:5]))
    shown = sh(RECIPE, "qqp", tmp_path, **env, STAGES="raw").stdout
    assert "train.tsv: 2 broken lines left out, the first is 2502" in shown
    train, valid = hold_out(rows)
    assert is_raw(tmp_path / "out/raw", "qqp", {"train": train, "valid": valid, "test": rows[:5]})


def test_bad_archives(env, tmp_path):
    archive = tmp_path / "rte.zip"

    def bad(task, members, *texts):
        pack(archive, members)
        refuses(sh(RECIPE, task, tmp_path, check=False, **env, STAGES="raw"), archive.name, *texts)
        assert not list((tmp_path / "out").glob("raw*"))

    good = {"a_dev.xml": rte_xml([pair(1, "t", "h", 'value="TRUE"')] * 3)}
    bad("rte", good, "no *_test.xml")
    bad("rte", {**good, "a_test.xml": "<corpus><pair>"}, "a_test.xml", "not XML")
    bad(
        "rte",
        {**good, "a_test.xml": rte_xml([pair(7, "t", "h", 'value="MAYBE"')])},
        "pair 7",
        "MAYBE",
    )
    bad(
        "rte",
        {**good, "a_test.xml": rte_xml([pair(7, "t", "", 'value="TRUE"')])},
        "pair 7",
        "no text",
    )
    bad("rte", {"README": "empty"}, "no train.tsv")
    archive.write_bytes(archive.read_bytes()[:-30])
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), archive, "damaged or cut short")
    public = sh(RECIPE, "rte", check=False, **env, MIRROR=f"file://{tmp_path}/none")
    refuses(public, "none/RTE.zip: download failed", "local folder")
    archive.rename(tmp_path / "RTE.zip")
    env.pop("EXPECTED")
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), "bytes, expected 697150")
    assert not list((tmp_path / "out").rglob("*.zip*"))


def test_bad_arguments(env, tmp_path):
    refuses(sh(RECIPE, check=False, **env), "TASK ''", "mrpc or cola")
    refuses(sh(RECIPE, "wnli", check=False, **env), "TASK 'wnli'")
    refuses(sh(RECIPE, "sst2", tmp_path / "none", check=False, **env), "none: no such folder")
    result = sh(RECIPE, "mnli", tmp_path, check=False, **env)
    refuses(result, f"{tmp_path}: ", "MNLI.zip nor train.tsv and dev_matched.tsv")
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), "RTE.zip", "rte.zip", "dev.tsv")


def test_bad_tables_of_ones_own(env, tmp_path):
    def bad(train, dev, *texts):
        (tmp_path / "train.tsv").write_text(train)
        (tmp_path / "dev.tsv").write_text(dev)
        refuses(sh(RECIPE, "own", tmp_path, check=False, **env, STAGES="raw"), *texts)
        assert not list((tmp_path / "out").glob("raw*"))

    good = "sentence\tlabel\n" + "".join(f"text {i}\tc{i % 2}\n" for i in range(9))
    bad(good.replace("sentence", "text"), good, "train.tsv", "no column sentence")
    bad(good.replace("label", "class"), good, "train.tsv", "no column label")
    bad(good.replace("c1", "very good"), good, "train.tsv", "'very good'", "one word")
    bad(good.replace("c1", ""), good, "train.tsv", "label ''", "one word")
    bad(good.replace("c1", "c0"), good, "train.tsv: all labels are 'c0'", "two or more")
    bad(good, good.replace("c1", "c2"), "dev.tsv: line 3: label 'c2'", "not one of c0, c1")
    bad(good, good.replace("sentence", "sentence2"), "dev.tsv", "no column sentence")
    refuses(sh(RECIPE, "own", check=False, **env), "TASK own", "FOLDER", "train.tsv and dev.tsv")
    (tmp_path / "dev.tsv").unlink()
    result = sh(RECIPE, "own", tmp_path, check=False, **env)
    refuses(result, f"{tmp_path}: ", "train.tsv and dev.tsv")


def test_tables_that_have_changed(env, tmp_path):
    """What was made of the old ones is not taken for done."""
    rows = "".join(f"text {i}\tc{i % 2}\n" for i in range(9))
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(f"sentence\tlabel\n{rows}")
    own = (RECIPE, "own", tmp_path)
    sh(*own, **env, STAGES="raw")
    assert "raw: done before" in sh(*own, **env, STAGES="raw").stdout
    (tmp_path / "train.tsv").write_text(f"sentence\tlabel\n{rows}new\tc1\n")
    result = sh(*own, check=False, **env, STAGES="raw")
    refuses(result, "train.tsv: not the file that", "another OUT")
    (tmp_path / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    (tmp_path / "test.tsv").write_text(f"sentence\tlabel\n{rows}")
    result = sh(*own, check=False, **env, STAGES="raw")
    refuses(
        result, "test.tsv would be read, but", "was made of train.tsv dev.tsv; give another OUT"
    )
    (tmp_path / "test.tsv").unlink()
    assert "raw: done before" in sh(*own, **env, STAGES="raw").stdout
    for name in ("train", "dev"):
        text = (tmp_path / f"{name}.tsv").read_text() + "new\tc1\n"
        (tmp_path / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode()))
        (tmp_path / f"{name}.tsv").unlink()
    result = sh(*own, check=False, **env, STAGES="raw")
    refuses(result, "train.tsv.gz dev.tsv.gz would be read, but", "another OUT")


def test_bad_raw_text(env, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(table("sst2", draw_rows("sst2", 9, 1)))

    def bad(content, *texts):
        (tmp_path / "text").write_bytes(content)
        result = sh(RECIPE, "sst2", tmp_path, check=False, **env, RAW_TEXT=f"{tmp_path}/text")
        refuses(result, tmp_path / "text", *texts)

    bad(b"a line\n" * 200 + b"\xff\n", "not UTF-8", "convert")
    bad(b"a line\n\n" * 99, "99 lines, fewer than 100")
    assert not list((tmp_path / "out/plain").iterdir())
    result = sh(RECIPE, "sst2", tmp_path, check=False, **env, RAW_TEXT=f"{tmp_path}/text:none")
    refuses(result, "RAW_TEXT: none: no such file")

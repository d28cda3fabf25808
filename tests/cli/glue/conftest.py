"""Where the recipe of GLUE writes, and what it wrote once."""

from pathlib import Path

import pytest

from tests.cli.glue.tables import ARCHIVES, RECIPE, draw_rows, table
from tests.cli.shell import sh


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    """No known sizes, output in a folder of its own."""
    names = [*ARCHIVES.values(), "mrpc_dev_ids.tsv"]
    names += ["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"]
    (tmp_path / "expected").write_text("".join(f"{name} -\n" for name in names))
    return {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A task with pairs and three classes, and text to pre-train on."""
    folder = tmp_path_factory.mktemp("mnli")
    (folder / "train.tsv").write_text(table("mnli", draw_rows("mnli", 60, 1)))
    (folder / "dev_matched.tsv").write_text(table("mnli", draw_rows("mnli", 9, 2)))
    for name, size in (("one", 150), ("two", 95)):
        texts = [f"{name}  text\u2028{n} <s>\n{' ' * (n % 2)}\n" for n in range(size)]
        (folder / name).write_text("".join(texts))
    env = {"OUT": str(folder / "out"), "BPE_MERGES": "60"}
    sh(RECIPE, "mnli", folder, **env, RAW_TEXT=f"{folder}/one:{folder}/two")
    return folder / "out"

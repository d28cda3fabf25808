"""From a real training of several language pairs to a bilingual student, as users type it."""

import pytest

from pet_fairseq import from_pretrained
from tests.cli.pages import USER_DIR, block, run_in
from tests.cli.processes import CROSS_ENTROPY, REPO, in_process, preprocess, run, train

STOCK = ("--user-dir", REPO / "pet_fairseq", "--required-batch-size-multiple", "1")


@pytest.fixture(scope="module")
def joined(raw, once):
    return once("joined", lambda to: preprocess(raw, to, "--joined-dictionary"))


@pytest.fixture(scope="module")
def multilingual(joined, once):
    """Trained on both directions of the pair."""
    options = (
        *("--task", "translation_multi_simple_epoch", "--langs", "de,en"),
        *("--lang-pairs", "de-en,en-de", "--sampling-method", "temperature"),
        *("--encoder-langtok", "src", "--decoder-langtok", "--arch", "transformer_tiny"),
        *("--share-all-embeddings", *CROSS_ENTROPY, "--max-update", "200"),
    )
    return once("both_ways", lambda to: train(joined, to, *options)) / "checkpoint_best.pt"


@pytest.fixture(scope="module")
def bilingual(multilingual, once):
    def fill(folder):
        pair = ("--source-lang", "en", "--target-lang", "de")
        words = ("pet-fairseq", "bilingual", multilingual, *pair, "--out", folder / "en_de")
        line = run(*words).output.splitlines()[-1]
        assert line.startswith(f"wrote {folder / 'en_de'}: bilingual_transformer, ")
        assert line.endswith("data: test, train, valid")

    return once("bilingual", fill) / "en_de"


def hypotheses(output):
    """The translations of fairseq-generate and -interactive, by the number of their sentence."""
    lines = [line.split("\t") for line in output.splitlines() if line.startswith("H-")]
    return {int(number.removeprefix("H-")): text for number, _, text in lines}


def test_translates_as_the_multilingual_model(multilingual, bilingual, joined, raw):
    """Greedily and one word shorter, as lengths count the language token there."""
    pair = ("--source-lang", "en", "--target-lang", "de")
    search = (*pair, "--beam", "1", "--gen-subset", "test", "--max-tokens", "2000", "--cpu")
    search = (*search, *STOCK)

    def longest(words):
        return ("--max-len-b", str(words))

    trained = (
        *("--task", "translation_multi_simple_epoch", "--langs", "de,en", "--lang-pairs"),
        *("de-en,en-de", "--encoder-langtok", "src", "--decoder-langtok"),
    )
    theirs = run(
        "fairseq-generate", joined, "--path", multilingual, *trained, *search, *longest(31)
    )
    ours = run(
        *("fairseq-generate", bilingual, "--path", bilingual / "checkpoint.pt", *search),
        *("--task", "pet_translation", *longest(30)),
    )
    expected = hypotheses(theirs.output)
    assert len(expected) == 30 and hypotheses(ours.output) == expected
    assert "bilingual_transformer: decoding through fairseq's own steps" in ours.output
    texts = (raw / "test.en").read_text().splitlines()
    found = from_pretrained(str(bilingual)).translate(texts, beam=1, max_len_b=30)
    assert found == [expected[i] for i in range(30)]


def test_teaches_a_student_that_reads_plain_sentences(bilingual, tmp_path):
    log = train(
        *(bilingual, tmp_path, "--source-lang", "en", "--target-lang", "de"),
        *("--arch", "transformer_tiny", "--share-all-embeddings", "--max-update", "20"),
        *("--criterion", "pet_distillation", "--teacher-path", bilingual / "checkpoint.pt"),
        *("--max-source-positions", "1023", "--max-target-positions", "1023"),
    )
    kl = log.values("kl", "valid")
    assert kl[-1] > 0
    search = ("--source-lang", "en", "--target-lang", "de", "--cpu", "--max-tokens", "2000")
    search = (*search, *STOCK)
    checkpoint = tmp_path / "checkpoint_best.pt"
    output = run("fairseq-generate", bilingual, "--path", checkpoint, *search).output
    assert len(hypotheses(output)) == 30


def test_what_it_cannot_read(multilingual, bilingual, tmp_path):
    pair = ("--source-lang", "de", "--target-lang", "fi", "--out", tmp_path / "out")
    done = in_process("bilingual", multilingual, *pair)
    assert done.status == 1
    assert done.output.splitlines()[-1].endswith(
        f"--target-lang fi: {multilingual} does not know it; its languages are de, en"
    )
    done = in_process("bilingual", bilingual / "checkpoint.pt", *pair)
    assert done.status == 1
    assert "was trained with --task translation; of the multilingual tasks only" in done.output


def test_the_page(multilingual, joined, tmp_path):
    (tmp_path / "multilingual.pt").symlink_to(multilingual)
    (tmp_path / "BIN").symlink_to(joined)
    (tmp_path / "text.de").write_text("b1 b2\nb3\n")
    page = "multilingual.md"
    run_in(tmp_path, block(page, "pet-fairseq bilingual"))
    training = block(page, "fairseq-train de_en", max_update=2)
    run_in(tmp_path, training.replace("--user-dir pet_fairseq", f"{USER_DIR} --cpu"))
    assert len(run_in(tmp_path, block(page, "pet-fairseq translate")).splitlines()) == 2

"""From a real training of several language pairs to a bilingual student, as users type it."""

import re
import shutil

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_page(multilingual, joined, tmp_path):
    (tmp_path / "multilingual.pt").symlink_to(multilingual)
    (tmp_path / "BIN").symlink_to(joined)
    (tmp_path / "text.de").write_text("b1 b2\nb3\n")
    page = "multilingual.md"
    run_in(tmp_path, block(page, "pet-fairseq bilingual"))
    training = block(page, "fairseq-train de_en", max_update=2)
    run_in(tmp_path, training.replace("--user-dir pet_fairseq", f"{USER_DIR} --cpu"))
    assert len(run_in(tmp_path, block(page, "pet-fairseq translate")).splitlines()) == 2


COMPRESSED = ("--device", "cpu", "--rate", "60", "--updates", "10")


@pytest.mark.slow
@pytest.mark.parametrize("given", ["text", "data"])
def test_compressed_for_one_pair(given, multilingual, joined, raw, tmp_path):
    """With the data that it was trained on, or with raw text alone."""
    pair = ("--source-lang", "en", "--target-lang", "de")
    train_pair = ("--train-pair", raw / "train.en", raw / "train.de")
    data, out = ("--data", joined) if given == "data" else train_pair, tmp_path / "small"
    words = ("pet-fairseq", "compress", multilingual, *pair, *data, "--out", out, *COMPRESSED)
    planned = run(*words, "--dry-run").output
    assert "the other stages depend on what these make" in planned and not out.exists()
    assert f"read on in {out / 'report.md'}" in run(*words).output
    assert "BLEU" in (out / "report.md").read_text()
    translated = run("pet-fairseq", "translate", out, text_in="a1 a2\na3\n").output
    assert len(translated.splitlines()) == 2
    training = run(*words, "--dry-run").output.split("# training\n")[1].split("\n#")[0]
    longest = re.findall(r"--max-(?:source|target)-positions (\d+)", training)
    assert len(set(longest)) == 1 and len(longest) == 2  # one table of positions in an engine


@pytest.mark.slow
def test_the_guide(multilingual, joined, raw, tmp_path):
    """With the data that it was trained on, and a text in whole words."""
    pytest.importorskip("ctranslate2")
    (tmp_path / "multilingual.pt").symlink_to(multilingual)
    (tmp_path / "BIN").symlink_to(joined)
    (tmp_path / "news.de").write_text("".join((raw / "train.de").read_text()[:2000]))
    (tmp_path / "new.de").write_text("a1 a2\na3\n")
    page = "howto/fairseq_multilingual.md"
    commands = block(page, "pet-fairseq compress").rstrip()
    output = run_in(tmp_path, f"{commands} {' '.join(COMPRESSED)}")
    assert "read on in small/report.md" in output
    sets = {file.name for file in (tmp_path / "small/bin").glob("train*.idx")}
    assert len(sets) == 6  # the pairs twice, and the translations
    run_in(tmp_path, block(page, "pet-fairseq translate"))
    assert len((tmp_path / "new.en").read_text().splitlines()) == 2


def test_a_language_that_the_teacher_does_not_know(multilingual, joined, raw, tmp_path):
    pair = ("--source-lang", "de", "--target-lang", "fi", "--out", tmp_path / "out")
    text = ("--data", joined, "--text", raw / "train.de", "--device", "cpu")
    done = in_process("compress", multilingual, *pair, *text)
    assert done.status == 1 and done.output.splitlines()[-1].endswith(
        f"--target-lang fi: {multilingual} does not know it; its languages are de, en"
    )


def test_the_subword_model_comes_along(multilingual, tmp_path):
    """Text for the bilingual model needs no options then."""
    (tmp_path / "multilingual.pt").symlink_to(multilingual)
    (tmp_path / "spm.model").write_bytes(b"a model")
    words = ("--source-lang", "en", "--target-lang", "de", "--out", tmp_path / "en_de")
    assert in_process("bilingual", tmp_path / "multilingual.pt", *words).status == 0
    assert (tmp_path / "en_de/spm.model").read_bytes() == b"a model"


def test_text_with_language_tokens(bilingual, tmp_path):
    """They are words as others are: a line for a line, the same in every form."""
    pytest.importorskip("ctranslate2")
    out, file = tmp_path / "exported", tmp_path / "text"
    assert in_process("export", bilingual, "--to", "ctranslate2", "--out", out).status == 0
    text = ["b1 b2", "", "__de__ b1 b2", "b1 __en__ b2", ">>fra<< b1", "b1 </s> b2", "b3"]
    search = ("--beam", "1", "--device", "cpu", "--input", file, "--output", tmp_path / "out")
    found = []
    for model in ((bilingual,), (out, "--data", bilingual)):
        for lines in (text, ["b1 b2", "b3", "unheard b1"]):
            file.write_text("".join(f"{line}\n" for line in lines))
            assert in_process("translate", *model, *search).status == 0
            found.append((tmp_path / "out").read_text().splitlines())
    ours, plain, theirs, _ = found
    assert ours == theirs and len(ours) == len(text)
    assert [ours[0], ours[-1], ours[4]] == plain
    assert [bool(translation) for translation in ours] == [bool(line) for line in text]


@pytest.mark.slow
@pytest.mark.parametrize("beam", ["1", "4"])
def test_the_same_translations_in_ctranslate2(beam, bilingual, raw, tmp_path):
    """Without a division by lengths, as CTranslate2 counts the language token."""
    pytest.importorskip("ctranslate2")
    out = tmp_path / "exported"
    words = ("--data", bilingual, "--to", "ctranslate2", "--out", out)
    run("pet-fairseq", "export", bilingual / "checkpoint.pt", *words)
    search = ("--beam", beam, "--lenpen", "0", "--input", raw / "test.en", "--output")
    translations = []
    for model, data in ((bilingual, ()), (out, ("--data", bilingual))):
        file = tmp_path / f"{model.name}.txt"
        run("pet-fairseq", "translate", model, *data, *search, file)
        translations.append(file.read_text().splitlines())
    ours, theirs = translations
    assert len(ours) == 30 and len(set(ours)) > 3
    assert ours == theirs


@pytest.mark.slow
def test_the_page_from_transformers(tmp_path):
    """An NLLB's translations of a file are those of transformers; then it teaches a student."""
    from tests.huggingface import translators  # skips without transformers

    texts = translators.TEXTS
    (tmp_path / "text.de").write_text("".join(f"{text}\n" for text in texts))
    made = translators.nllb(tmp_path / "nllb")
    page = "multilingual.md"
    commands = block(page, "pet-fairseq import-hf").rstrip().splitlines()
    run_in(tmp_path, commands[0])
    found = run_in(tmp_path, f"{commands[1]} --beam 1").splitlines()
    target = made.tokenizer.convert_tokens_to_ids("eng_Latn")
    for text, line in zip(texts, found, strict=True):
        (tokens,) = made.model.generate(
            **made.tokenizer([text], return_tensors="pt"),
            num_beams=1,
            max_new_tokens=39,
            min_new_tokens=2,
            bad_words_ids=[[made.model.config.pad_token_id]],
            forced_bos_token_id=target,
        )
        expected = made.tokenizer.decode(tokens[2:].tolist()).removesuffix("</s>")
        assert line and expected.startswith(line), text
    for part, size in (("train", 24), ("valid", 16)):
        for language in ("deu_Latn", "eng_Latn"):
            lines = "".join(f"{texts[i % 3]}\n" for i in range(size))
            (tmp_path / f"{part}.{language}").write_text(lines)
    positions = {"max_source_positions": 38, "max_target_positions": 38}
    training = block(page, "for part in", max_update=2, **positions)
    shown = run_in(tmp_path, training.replace("--user-dir pet_fairseq", f"{USER_DIR} --cpu"))
    assert "| kl " in shown
    assert (tmp_path / "student/checkpoint_best.pt").is_file()


@pytest.mark.slow
def test_a_student_of_the_teachers_translations(multilingual, raw, tmp_path):
    """From source sentences alone: no reference is seen, and the report says so."""
    pytest.importorskip("ctranslate2")
    pair = ("--source-lang", "en", "--target-lang", "de")
    out = tmp_path / "small"
    words = ("pet-fairseq", "compress", multilingual, *pair, "--text", raw / "train.en")
    output = run(*words, "--out", out, *COMPRESSED).output
    assert f"read on in {out / 'report.md'}" in output
    assert "agrees with it, and nothing about the quality" in (out / "report.md").read_text()
    translated = (out / "corpus_text/target.txt").read_text().splitlines()
    held_out = (out / "text/raw.reference").read_text().splitlines()
    assert held_out and set(held_out) <= set(translated)
    sources = (out / "corpus_text/source.txt").read_text().splitlines()
    assert set(sources) <= set((raw / "train.en").read_text().splitlines())


@pytest.mark.slow
def test_a_folder_that_goes_on_at_another_place(multilingual, raw, tmp_path):
    """As on another machine: the folder and the teacher are copied, and what is there stays."""
    pytest.importorskip("ctranslate2")
    here, there = tmp_path / "here", tmp_path / "there"
    given = ("--text", raw / "train.en", "--vocabulary", "trim", *COMPRESSED)
    pair = ("--source-lang", "en", "--target-lang", "de")

    def compress(place) -> str:
        words = ("pet-fairseq", "compress", place / "teacher.pt", *pair, *given)
        return run(*words, "--out", place / "out").output

    here.mkdir()
    shutil.copy(multilingual, here / "teacher.pt")
    before = compress(here).splitlines()[-2]
    shutil.copytree(here, there, symlinks=True)
    shutil.rmtree(here)
    lines = compress(there).splitlines()
    started = [line for line in lines if line.startswith("== ") and "done" not in line]
    assert started == ["== report"] and lines[-2] == before

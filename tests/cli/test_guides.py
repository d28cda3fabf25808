"""The commands of the guides run as they stand there, one block after the other.

Only numbers that say how large a model is or how long it is trained are made smaller.
"""

import json
import random
import re
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.demo.corpus import train_pieces, write_corpus
from tests.cli.pages import USER_DIR, block, run_in
from tests.predict.imported import LABELS, write_classifier

pytestmark = pytest.mark.slow


def test_a_classifier(tmp_path):
    page = "howto/classifier.md"
    write_classifier(tmp_path / "films")
    for part in ("train", "valid"):
        (tmp_path / f"{part}.text").write_text("a good film.\na bad film\nfilms, good\n" * 4)
        (tmp_path / f"{part}.label").write_text("".join(f"{label}\n" for label in LABELS) * 4)
    run_in(tmp_path, block(page, "pet-fairseq import-hf"))
    run_in(tmp_path, block(page, "for part in"))
    run_in(tmp_path, block(page, "fairseq-train", max_update=3))
    run_in(tmp_path, block(page, "pet-fairseq new-plugins"))
    ask = "echo 'good films' | pet-fairseq predict {} --backbone-path bert/checkpoint.pt --input -"
    for plugins in ("plugins2/checkpoint_best.pt", "plugins.pt"):
        assert json.loads(run_in(tmp_path, ask.format(plugins)))["label"] in LABELS


@pytest.fixture
def reviews(tmp_path) -> Path:
    """A folder with records and text under the guide's names; prompts of 40 words."""
    draw = random.Random(1)
    words = "film plot actor scene good bad long short warm cold".split()
    for part, size in (("train", 40), ("valid", 8), ("test", 6)):
        with (tmp_path / f"{part}.jsonl").open("w") as file:
            for number in range(size):
                record = {
                    "query": "is this review positive or negative?",
                    "prompt": " ".join(draw.choices(words, k=40)),
                    "response": ("positive", "negative")[number % 2],
                }
                file.write(f"{json.dumps(record)}\n")
    (tmp_path / "books.txt").write_text("a long plot and a short film\n" * 200)
    return tmp_path


def test_long_prompts(reviews):
    page = "howto/long_prompts.md"
    run_in(reviews, block(page, "pet-fairseq prompts"))
    sizes = {"decoder_embed_dim": 16, "decoder_ffn_embed_dim": 32, "decoder_layers": 2}
    length = {"max_update": 3, "total_num_update": 3, "warmup_updates": 1}
    run_in(reviews, block(page, "fairseq-train BIN/lm", **sizes, **length))
    memory = block(page, "fairseq-train BIN --user-dir", window=16, max_update=2)
    run_in(reviews, memory)
    run_in(reviews, memory.replace("--save-dir memory", "--save-dir control --segments-from other"))
    lines = run_in(reviews, block(page, "pet-fairseq choose")).splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    assert [result["total"] for result in results] == [6, 6, 6]
    output = run_in(reviews, block(page, "fairseq-generate", max_len_b=3))
    assert len(re.findall(r"^D-", output, re.MULTILINE)) == 7  # of the test set, and of the line


def test_pre_training_as_icaes(reviews):
    """The second training begins with what the first one has learned."""
    guide = "howto/long_prompts.md"
    for part in ("train", "valid"):
        lines = (reviews / f"{part}.jsonl").read_text().splitlines()
        texts = [json.loads(line)["prompt"] for line in lines]
        (reviews / f"{part}.txt").write_text("".join(f"{text}\n" for text in texts))
    run_in(reviews, block(guide, "pet-fairseq prompts"))
    sizes = {"decoder_embed_dim": 16, "decoder_ffn_embed_dim": 32, "decoder_layers": 2}
    length = {"max_update": 3, "total_num_update": 3, "warmup_updates": 1}
    run_in(reviews, block(guide, "fairseq-train BIN/lm", **sizes, **length))
    commands = block("selfcp.md", "for part in train valid", max_update=2, lora_rank=2)
    commands = commands.replace("--user-dir pet_fairseq", f"{USER_DIR} --cpu")
    first, last = commands.rsplit("--lr 1e-3", 1)
    run_in(reviews, f"{first}--lr 0{last}")  # the second stays where it starts
    records = [json.loads(line) for line in (reviews / "train.icae.jsonl").open()]
    assert [record["query"] for record in records] == 40 * ["repeat:", "go on:"]
    texts = (reviews / "train.txt").read_text().splitlines()
    for text, same, rest in zip(texts, records[::2], records[1::2]):
        assert same["prompt"] == same["response"] == text
        assert f"{rest['prompt']} {rest['response']}" == text
    states = [
        load_checkpoint(str(reviews / folder / "checkpoint_last.pt"), folder)["model"]
        for folder in ("pretrained", "memory")
    ]
    updates = [name for name in states[0] if "low_rank" in name]
    assert updates and states[0]["encoder.low_rank.up.0"].any()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def write_opus_mt(tmp_path: Path):
    """A model of OPUS-MT's kind in the folder opus, and sets of the words that it knows."""
    from tests.huggingface.transformers_models import marian  # skips without transformers

    pytest.importorskip("ctranslate2")
    draw = random.Random(1)
    for part, size in (("train", 40), ("valid", 8), ("test", 6)):
        for language, words in (("de", "ein hund katze sieht den"), ("en", "a dog cat sees the")):
            lines = (" ".join(draw.choices(words.split(), k=4)) for _ in range(size))
            (tmp_path / f"{part}.{language}").write_text("\n".join(lines) + "\n")
    (tmp_path / "opus").mkdir()
    for language, name in (("de", "source"), ("en", "target")):
        lines = (tmp_path / f"train.{language}").read_text().splitlines()
        (tmp_path / f"opus/{name}.spm").write_bytes(train_pieces(lines, 24))
    models = [SentencePieceProcessor(str(path)) for path in (tmp_path / "opus").glob("*.spm")]
    pieces = {one.id_to_piece(i) for one in models for i in range(3, one.get_piece_size())}
    widths = dict(d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64)
    pieces = ["</s>", "<unk>", *sorted(pieces), "<pad>"]
    return marian(tmp_path / "opus", pieces=pieces, **widths)


def write_text_for_opus_mt(tmp_path: Path) -> None:
    """A model whose translations end, and text in its source language."""
    model = write_opus_mt(tmp_path)
    model.final_logits_bias[0, 0] += 4
    model.save_pretrained(tmp_path / "opus")
    (tmp_path / "mono.de").write_text((tmp_path / "train.de").read_text() * 3)


def test_a_teacher_in_ctranslate2(tmp_path):
    from ctranslate2.converters import TransformersConverter

    page = "howto/ctranslate2_teacher.md"
    write_text_for_opus_mt(tmp_path)
    (tmp_path / "opus").rename(tmp_path / "downloaded")
    files = ["source.spm", "target.spm"]
    TransformersConverter(str(tmp_path / "downloaded"), copy_files=files).convert(
        str(tmp_path / "opus")
    )
    (tmp_path / "new.de").write_text((tmp_path / "test.de").read_text())
    commands = block(page, "pet-fairseq compress", vocabulary=30).rstrip()
    output = run_in(tmp_path, f"{commands} --rate 50 --updates 20 --device cpu")
    assert re.search(r"MB -> .* MB \(.* in CTranslate2 int8 on", output)
    run_in(tmp_path, block(page, "pet-fairseq translate"))
    found = (tmp_path / "new.en").read_text()
    assert found == (tmp_path / "small/speed/student.txt").read_text()


def test_an_opus_mt_teacher(tmp_path):
    page = "howto/opus_mt.md"
    write_opus_mt(tmp_path)
    commands = block(page, "pet-fairseq compress opus --train-pair").rstrip()
    output = run_in(tmp_path, f"{commands} --rate 50 --updates 200 --device cpu")
    assert re.search(r"MB -> .* MB \(.* in CTranslate2 int8 on", output)
    for folder in ("small", "small/teacher"):
        assert (tmp_path / folder / "ctranslate2/model.bin").is_file()
    assert "the pieces that --vocabulary left it" in (tmp_path / "small/report.md").read_text()
    check_student_in_ctranslate2(tmp_path)
    again = block(page, "pet-fairseq compress small/trimmed", megabytes=0.04).rstrip()
    run_in(tmp_path, f"{again} --updates 2 --device cpu --dry-run")


def test_an_opus_mt_teacher_of_monolingual_text(tmp_path):
    write_text_for_opus_mt(tmp_path)
    commands = block("howto/opus_mt.md", "pet-fairseq compress opus --text").rstrip()
    commands = commands.replace("--vocabulary trim", "")  # few words are left of a random teacher's
    output = run_in(tmp_path, f"{commands} --rate 50 --updates 20 --device cpu")
    assert re.search(r"MB -> .* MB \(.* in CTranslate2 int8 on", output)
    translated = (tmp_path / "small/corpus_text/target.txt").read_text().splitlines()
    assert 20 < len(translated) <= 3 * 40


def write_byte_level_bart(folder: Path, texts: list[str]) -> None:
    """A BART whose tokenizer is one of bytes, as that of published ones."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from tests.huggingface.transformers_models import bart

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    bart(folder, vocab_size=tokenizer.get_vocab_size())
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("kind", ["words", "bytes", "t5"])
def test_a_teacher_that_summarises(kind, tmp_path):
    """BART's texts begin with <s>, a word of its dictionary."""
    from tests.huggingface import transformers_models  # skips without transformers

    pytest.importorskip("rouge_score")
    draw = random.Random(1)
    start = "" if kind == "t5" else "<s>"
    words = transformers_models.WORDS
    if kind == "bytes":
        words = ["".join(draw.choices("abcdeé", k=3)) for _ in words]
    articles: list[str] = []
    (tmp_path / "raw").mkdir()
    for part, size in (("train", 60), ("valid", 8), ("test", 6)):
        lines = [draw.choices(words, k=8) for _ in range(size)]
        articles += [start + " ".join(line) for line in lines]
        for name, longest in (("article", 8), ("summary", 3)):
            text = "".join(" ".join(line[:longest]) + "\n" for line in lines)
            (tmp_path / "raw" / f"{part}.{name}").write_text(text)
    prepare, use = block("pretrained.md", "for part in train"), block("pretrained.md", "cut -d")
    if kind == "t5":
        prepare, use = (part.replace(" | sed 's/^/<s>/'", "") for part in (prepare, use))
    run_in(tmp_path, prepare)
    assert (tmp_path / "train.article").read_text().splitlines() == articles[:60]
    if kind == "bytes":
        write_byte_level_bart(tmp_path / "model", articles)
    else:
        getattr(transformers_models, "t5" if kind == "t5" else "bart")(tmp_path / "model")
    command = block("pretrained.md", "pet-fairseq compress bart").rstrip()
    command = command.replace("compress bart", "compress model")
    run_in(tmp_path, f"{command} --rate 95 --updates 3 --device cpu")
    report = (tmp_path / "small/report.md").read_text()
    assert "ROUGE" in report and "\u0120" not in report
    assert (tmp_path / "small/test/source.txt").read_text() == (
        (tmp_path / "test.article").read_text().replace("<s>", "")
    )
    first = (tmp_path / "small/text/test.source").read_text().split()[0]
    assert first == (start or (tmp_path / "test.article").read_text().split()[0])
    run_in(tmp_path, f"cp raw/test.article new.article\n{use}")
    assert len((tmp_path / "new.summary").read_text().splitlines()) == 6


def test_sentencepiece_of_ones_own(tmp_path):
    """The file that lies beside the teacher divides the text of the student."""
    run_in(tmp_path, "pet-fairseq demo-teacher teacher; mv teacher/spm.model my.model")
    (tmp_path / "teacher/model.pt").rename(tmp_path / "teacher/checkpoint_best.pt")
    write_corpus(tmp_path / "text", {"train": 200, "valid": 20, "test": 20}, 300)
    for side in "fi", "en":
        (tmp_path / f"text/raw/train.{side}").rename(tmp_path / f"train.{side}")
    command = block("compress.md", "cp my.model").replace(".de ", ".fi ").rstrip()
    run_in(tmp_path, f"{command} --updates 2 --device cpu")
    pieces = SentencePieceProcessor(model_file=str(tmp_path / "my.model"))
    line = (tmp_path / "small/text/train.fi").read_text().splitlines()[0]
    assert line.split() == pieces.encode(pieces.decode(line.split()), out_type=str)


def test_a_teacher_of_many_languages(tmp_path):
    from tests.huggingface import translators  # skips without transformers

    page = "howto/nllb.md"
    sizes = dict(d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64)
    translators.nllb(tmp_path / "nllb", **sizes)
    draw = random.Random(1)
    words = " ".join(translators.TEXTS).split()
    for part, size in (("train", 40), ("valid", 8), ("test", 6), ("new", 3)):
        for language in ("de", "en"):
            lines = (" ".join(draw.choices(words, k=4)) for _ in range(size))
            (tmp_path / f"{part}.{language}").write_text("\n".join(lines) + "\n")
    commands = block(page, "pet-fairseq compress").replace("eng_Latn", "fra_Latn").rstrip()
    output = run_in(tmp_path, f"{commands} --rate 50 --updates 2 --device cpu")
    assert "read on in small/report.md" in output
    run_in(tmp_path, block(page, "pet-fairseq translate"))
    assert len((tmp_path / "new.en").read_text().splitlines()) == 3


def check_student_in_ctranslate2(folder: Path) -> None:
    """It translates the test set: in int8 as the run did, in float32 as fairseq-generate does.

    The words of float32 are compared, greedy and at most 12 of them.
    """
    small = folder / "small"
    sources = [line.split() for line in (small / "test/source.tokens").read_text().splitlines()]
    pieces = translate(small / "ctranslate2", sources, beam_size=5, max_decoding_length=23)  # of 24
    texts = ["".join(words).replace("\u2581", " ").strip() for words in pieces]
    assert texts == (small / "speed/student.txt").read_text().splitlines()
    run_in(
        folder,
        "pet-fairseq export small/training/checkpoint_best.pt --data small/bin --to ctranslate2 "
        "--quantization float32 --out float32",
    )
    output = run_in(
        folder,
        f"fairseq-generate small/bin {USER_DIR} --path small/fairseq/model.pt --cpu --beam 1 "
        "--required-batch-size-multiple 1 --max-len-b 12 "
        "--max-source-positions 24 --max-target-positions 24",
    )
    found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.MULTILINE))
    expected = [found[str(number)].split() for number in range(len(sources))]
    assert len(expected) == 6 and len({*map(tuple, expected)}) > 1
    # the random teacher says the padding word, too, which fairseq's search never takes
    search = {"beam_size": 1, "max_decoding_length": 12, "suppress_sequences": [["<blank>"]]}
    in_float32 = translate(folder / "float32", sources, **search)
    assert in_float32 == expected


def translate(model: Path, sources: list[list[str]], **options) -> list[list[str]]:
    """The best translation of each sentence, in tokens."""
    import ctranslate2

    translator = ctranslate2.Translator(str(model), device="cpu", intra_threads=1)
    return [one.hypotheses[0] for one in translator.translate_batch(sources, **options)]


def test_few_bits_a_weight(student, teacher, data, tmp_path):
    page = "quantisation.md"
    for name, target in (("student", student[0]), ("teacher", teacher.parent), ("BIN", data)):
        (tmp_path / name).symlink_to(target)
    length = {"max_update": 2, "total_num_update": 2, "warmup_updates": 1}
    commands = block(page, "fairseq-train", **length)
    output = run_in(tmp_path, commands.replace("--user-dir pet_fairseq", USER_DIR))
    assert len(re.findall(r"^D-", output, re.MULTILINE)) > 20
    run_in(tmp_path, block(page, "pet-fairseq export"))
    assert (tmp_path / "engine/model.bin").is_file()

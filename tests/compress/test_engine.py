"""A model in CTranslate2 as a teacher: what its folder tells, and what is written of it."""

import json
import struct

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from pet_fairseq.compress.data import data_stages
from pet_fairseq.compress.engine import (
    check_translates,
    find_tokens,
    measure_engine,
    named_files,
    read_header,
    subword_files,
    take,
)
from pet_fairseq.compress.given import Given, check_given
from pet_fairseq.compress.preparation import corpus_stages, teacher_stages, vocabulary_stages
from pet_fairseq.compress.raw_text import TextPair, write_pieces
from pet_fairseq.compress.teacher_text import EngineText, open_teacher
from pet_fairseq.compress.vocabulary import train_vocabulary, trim_teacher
from pet_fairseq.demo.corpus import train_pieces
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.predict.ctranslate2 import load_engine, read_vocabularies
from tests.cli.processes import refusal
from tests.predict.made import save_with_task
from tests.translation import make_model, make_task

ctranslate2 = pytest.importorskip("ctranslate2")
TEXT = ["der hund sieht die katze", "die katze", "ein hund und eine katze sehen den hund"]


def save_model(path, task, **options):
    """The checkpoint of an untrained Transformer; returns its path."""
    torch.manual_seed(1)
    model, args = make_model(task, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # CTranslate2 stores equal ones once
    args._name = args.arch
    return save_with_task(path, "translation", model, args, task)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


def sentence_model(file, texts=TEXT, number=40):
    """A SentencePiece model; returns its pieces."""
    file.write_bytes(train_pieces(texts, number))
    model = SentencePieceProcessor(str(file))
    return [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


@pytest.fixture
def exported(tmp_path):
    """Exports an untrained model of some words; returns its folder."""

    def exported(words, name="engine", **options):
        task = make_task(tmp_path / f"{name} data", words)
        path = save_model(tmp_path / f"{name}.pt", task, **options)
        export(path, str(tmp_path / f"{name} data"), "ctranslate2", tmp_path / name)
        return tmp_path / name

    return exported


@pytest.fixture
def in_pieces(exported, tmp_path):
    """A model whose words are pieces, with the subword model beside it; and its text."""
    folder = exported(sentence_model(tmp_path / "spm.model"))
    return folder, write(tmp_path / "mono", TEXT * 20)


def given(folder, mono, out, **options):
    return Given(folder, out, **{"languages": ("de", "en"), "text": (mono,)} | options)


# --- what a file says -----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_how_large_it_is(shared, precision, tmp_path):
    """As the model that was exported, whatever its numbers are rounded to."""
    options = dict(share_all_embeddings=shared, decoder_layers=3, max_source_positions=30)
    task = make_task(tmp_path / "data", max_source_positions=30, max_target_positions=20)
    options |= dict(max_target_positions=20, encoder_embed_dim=32, encoder_ffn_embed_dim=40)
    options |= dict(decoder_embed_dim=32, decoder_learned_pos=True)
    path = save_model(tmp_path / "m.pt", task, **options)
    export(path, str(tmp_path / "data"), "ctranslate2", tmp_path / "engine", precision=precision)
    figures, (model, _) = measure_engine(tmp_path / "engine"), make_model(task, **options)
    counts = count_parameters(model)
    assert figures.layers == (len(model.encoder.layers), 3)
    assert figures.layer_parameters == counts.layers and figures.width == 32
    assert figures.positions == (30, 20)
    assert figures.precision == {"fp32": "float32"}.get(precision, precision)
    of_positions = model.decoder.embed_positions.weight.numel()
    matrices = {
        p.data_ptr(): p.numel() for p in model.parameters() if p.size(0) == len(task.tgt_dict)
    }
    assert len(matrices) == (1 if shared else 3)
    stored = counts.total - of_positions
    # without shared embeddings the three matrices of this untrained model differ
    assert figures.parameters == stored
    assert figures.bytes == (tmp_path / "engine/model.bin").stat().st_size


def test_damaged_files(exported, tmp_path):
    folder = exported(TEXT[0].split())
    whole = (folder / "model.bin").read_bytes()
    for content in (
        b"",
        b"no model at all",
        whole[:40],
        whole[:7],
        struct.pack("I", 6) + b"\xff" * 9,
    ):
        (folder / "model.bin").write_bytes(content)
        with pytest.raises(UserError, match=r"model.bin: (not a model of CTranslate2|version)"):
            read_header(folder / "model.bin")
    (folder / "model.bin").write_bytes(struct.pack("I", 3) + whole[4:])
    with pytest.raises(UserError, match="version 3 of CTranslate2's models, which is not known"):
        read_header(folder / "model.bin")


def test_a_language_model(tmp_path):
    from ctranslate2.specs import TransformerDecoderModelSpec

    spec = TransformerDecoderModelSpec.from_config(1, 2)
    (tmp_path / "model.bin").write_bytes(header_of(spec))
    with pytest.raises(UserError, match="a TransformerDecoder in CTranslate2, which does not"):
        check_translates(tmp_path)


def header_of(spec):
    """A model.bin without tensors."""
    name = spec.name.encode() + b"\0"
    return struct.pack("=IH", 6, len(name)) + name + struct.pack("=III", spec.revision, 0, 0)


# --- languages ------------------------------------------------------------------------------------


def converted(folder):
    """A folder of Hugging Face's in CTranslate2, by CTranslate2's own converter."""
    from ctranslate2.converters import TransformersConverter

    files = [path.name for path in folder.iterdir() if path.name.endswith((".spm", ".bpe.model"))]
    files += [path.name for path in folder.glob("tokenizer*.json")]
    out = folder.with_name(f"{folder.name}_ct2")
    TransformersConverter(str(folder), copy_files=files).convert(str(out))
    return out


@pytest.mark.parametrize(
    "kind, options",
    [
        ("nllb", {}),
        ("nllb", {"legacy": True}),
        ("marian", {}),
    ],
)
def test_translates_as_with_the_tokenizer_of_transformers(kind, options, tmp_path):
    """CTranslate2 on the tokens that the model's own tokenizer gives, with its target's prefix."""
    from tests.huggingface import translators

    model = getattr(translators, kind)(tmp_path / kind, **options)
    folder = converted(tmp_path / kind)
    take(folder, model.pair, subword_files(folder), tmp_path / "taken")
    reads = EngineText(tmp_path / "taken")
    tokenizer = model.tokenizer
    to_words = tokenizer.convert_ids_to_tokens
    if kind == "marian":
        texts = [f">>{model.pair[1]}<< {text}" for text in translators.TEXTS]
        prefix = []
    else:
        texts, prefix = translators.TEXTS, to_words(model.start[-1:])
    sources = [to_words(tokenizer(text).input_ids) for text in texts]
    engine = ctranslate2.Translator(str(folder))
    search = dict(beam_size=1, max_decoding_length=12)
    expected = engine.translate_batch(sources, [prefix] * len(texts), **search)
    ours = load_engine(tmp_path / "taken")
    search["max_decoding_length"] -= len(prefix)
    found = ours.translate_batch(
        [reads.pieces(text).split() for text in translators.TEXTS], **search
    )
    assert [each.hypotheses[0] for each in found] == [
        each.hypotheses[0][len(prefix) :] for each in expected
    ]
    names = {path.name for path in (tmp_path / "taken").iterdir()}
    assert {f"dict.{language}.txt" for language in model.pair} <= names
    task = open_teacher(tmp_path / "taken").task
    assert (task.cfg.source_lang, task.cfg.target_lang) == tuple(model.pair)


def test_languages_that_a_model_does_not_know(exported, tmp_path):
    words = ["a", "deu_Latn", "eng_Latn", "fra_Latn"]
    folder = exported(words)
    with pytest.raises(
        UserError, match=r"--target-lang en: .* its languages are deu_Latn, eng_Latn"
    ):
        take(folder, ("deu_Latn", "en"), {}, tmp_path / "taken")
    assert not (tmp_path / "taken").exists()
    of_target = exported(["a", ">>fra<<", ">>ron<<"], "opus")
    with pytest.raises(UserError, match=r"--target-lang en: .* its languages are fra, ron"):
        take(of_target, ("de", "en"), {}, tmp_path / "taken")
    tokens = find_tokens(of_target, (read_words(of_target), []), ("de", "ron"))
    assert tokens == LanguageTokens((">>ron<<",), (), ("</s>",))
    # two words that look like languages are no languages
    assert find_tokens(exported(words[:3], "few"), (words[:3], []), ("de", "en")) is None


@pytest.mark.parametrize(
    "start, options, expected",
    [
        ("</s>", {}, LanguageTokens(("__de__",), ("</s>",), ("</s>", "__en__"))),
        (
            "</s>",
            {"legacy_behaviour": True},
            LanguageTokens((), ("</s>", "__de__"), ("</s>", "__en__")),
        ),
        (None, {}, LanguageTokens((), ("</s>", "__de__"), ("__en__",))),
    ],
)
def test_where_languages_stand(start, options, expected, tmp_path):
    """M2M-100's names; behind the sentence in older tokenizers and in mBART's."""
    config = {"add_source_eos": False, "eos_token": "</s>", "decoder_start_token": start}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    words = ["a", "__de__", "__en__", "__fr__"]
    assert find_tokens(tmp_path, (words, words), ("de", "en")) == expected
    # a model of no languages needs the end alone, unless CTranslate2 adds it
    plain = LanguageTokens((), ("</s>",), (start or "</s>",))
    assert find_tokens(tmp_path, (words[:1], words[:1]), ("de", "en")) == plain


def read_words(folder):
    return read_vocabularies(folder)[0]


# --- the subword models -------------------------------------------------------------------


def test_files_that_are_named(tmp_path):
    one, other = write(tmp_path / "one", []), write(tmp_path / "other", [])
    assert named_files(one, ()) == {"bpe.codes": one}
    assert named_files(None, [one]) == {"spm.model": one}
    assert named_files(None, [one, other]) == {"source.spm": one, "target.spm": other}
    assert named_files(None, ()) == {}
    for arguments, line in (
        ((one, [other]), "--bpe and --sentencepiece: both name"),
        ((None, [one] * 3), "--sentencepiece: give one model, or those"),
        ((tmp_path / "gone", ()), "--bpe .*gone: no such file"),
        ((None, [one, tmp_path / "gone"]), "--sentencepiece .*gone: no such file"),
    ):
        with pytest.raises(UserError, match=line):
            named_files(*arguments)


def test_files_of_another_model(in_pieces, tmp_path):
    folder, _text = in_pieces
    other = tmp_path / "other.model"
    sentence_model(other, ["zwölf boxkämpfer jagen viktor", "quer über den großen sylter deich"])
    for name in ("spm.model", "source.spm"):
        taken = tmp_path / f"taken {name}"
        take(folder, ("de", "en"), {name: other}, taken)
        (taken.parent / "out/teacher").mkdir(parents=True, exist_ok=True)
        with pytest.raises(UserError, match=rf"{name}: \d+% of its pieces are no words of TEACHER"):
            EngineText(taken).check(["quer über den deich"])
    take(folder, ("de", "en"), subword_files(folder), tmp_path / "right")
    EngineText(tmp_path / "right").check(TEXT)


def test_raw_text_without_a_file(exported, tmp_path):
    folder = exported(sentence_model(tmp_path / "away.model"))
    (tmp_path / "away.model").rename(tmp_path / "away.pieces")
    text = write(tmp_path / "mono", TEXT)
    for vocabulary in ("keep", "trim"):
        with pytest.raises(UserError, match="its words are pieces, and it has no subword model"):
            teacher_stages(given(folder, text, tmp_path / "out", vocabulary=vocabulary))
    asked = given(folder, text, tmp_path / "out", vocabulary="40")
    (stage,), taken = teacher_stages(asked)
    taken.parent.mkdir(parents=True)
    take(**stage.command.arguments)
    with pytest.raises(UserError, match=r"--text: \d+% of its pieces are no words of TEACHER"):
        corpus_stages(asked, taken)
    pieces = SentencePieceProcessor(str(tmp_path / "away.pieces"))
    write(text, [" ".join(pieces.encode(line, out_type=str)) for line in TEXT])
    (translate, _), _ = corpus_stages(asked, taken)
    assert translate.command[3:5] == ("--tokenizer", "space")
    reads = EngineText(taken)
    assert [reads.raw(line) for line in read(text)] == TEXT
    assert [reads.pieces(line) for line in read(text)] == read(text)


def test_a_subword_model_in_a_neighbouring_folder(in_pieces, tmp_path):
    """It may be another model's; that of the folder above is taken."""
    folder, _ = in_pieces
    (folder / "spm.model").unlink()
    (tmp_path / "text").mkdir()
    beside = (tmp_path / "spm.model").rename(tmp_path / "text/spm.model")
    assert subword_files(folder) == {}
    assert "--bpe: " in refusal("translate", folder, "--device", "cpu")
    above = beside.rename(tmp_path / "spm.model")
    assert subword_files(folder) == {"spm.model": above}


# --- text for the student -------------------------------------------------------------------------


def taken_folder(in_pieces, tmp_path):
    folder, _ = in_pieces
    take(folder, ("de", "en"), subword_files(folder), tmp_path / "taken")
    return tmp_path / "taken"


def test_a_vocabulary_of_its_own(in_pieces, tmp_path):
    """New pieces segment the student's text; the teacher still reads the test set in its own."""
    taken = taken_folder(in_pieces, tmp_path)
    source, target = (write(tmp_path / side, TEXT * 9) for side in ("s", "t"))
    sets = {split: [TextPair(source, target)] for split in ("train", "valid", "test")}
    train_vocabulary(taken, sets, 30, tmp_path / "vocabulary")
    model = SentencePieceProcessor(str(tmp_path / "vocabulary/spm.model"))
    assert model.get_piece_size() == 30
    write_pieces(tmp_path / "vocabulary", sets, tmp_path / "text", taken)
    assert read(tmp_path / "text/train.de") == [
        " ".join(model.encode(line, out_type=str)) for line in TEXT * 9
    ]
    known = {line.split()[0] for line in read(tmp_path / "text/dict.en.txt")}
    assert known == {model.id_to_piece(i) for i in range(3, 30)}
    assert {word for line in read(tmp_path / "text/train.en") for word in line.split()} <= known
    own = SentencePieceProcessor(str(taken / "spm.model"))
    assert read(tmp_path / "text/test.engine") == [
        " ".join(own.encode(line, out_type=str)) for line in TEXT * 9
    ]
    assert (tmp_path / "text/spm.model").read_bytes() == model.serialized_model_proto()
    for number, line in ((3000, "have fewer; give a smaller"), (8, "have more characters; give a")):
        with pytest.raises(
            UserError, match=f"--vocabulary {number}: the training sentences {line}"
        ):
            train_vocabulary(taken, sets, number, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_fewer_of_its_pieces(in_pieces, tmp_path):
    taken = taken_folder(in_pieces, tmp_path)
    files = [write(tmp_path / side, TEXT[1:2] * 9) for side in ("s", "t")]
    sets = {split: [TextPair(*files)] for split in ("train", "valid", "test")}
    write_pieces(taken, sets, tmp_path / "pieces", taken)
    trim_teacher(taken, tmp_path / "pieces", None, tmp_path / "trimmed")
    whole, fewer = (
        open_teacher(path).task.source_dictionary for path in (taken, tmp_path / "trimmed")
    )
    assert set(fewer.symbols) < set(whole.symbols)
    write_pieces(tmp_path / "trimmed", sets, tmp_path / "text", taken)
    for name in ("train.de", "train.en", "test.engine"):
        assert read(tmp_path / "text" / name) == read(tmp_path / "pieces" / name)


def test_sentences_that_a_teacher_cannot_read_are_cut(exported, tmp_path):
    options = dict(max_source_positions=6, max_target_positions=9)
    folder = exported(TEXT[2].split(), **options)
    take(folder, ("de", "en"), {}, tmp_path / "taken")
    reads = EngineText(tmp_path / "taken")
    assert reads.pieces(TEXT[2]).split() == TEXT[2].split()[:5]  # and its end
    engine = load_engine(tmp_path / "taken")
    for length, source in ((reads.longest, reads.pieces(TEXT[2]).split()),):
        engine.translate_batch([source], min_decoding_length=length, max_decoding_length=length)


# --- stages ---------------------------------------------------------------------------------------


def test_what_is_made(in_pieces, tmp_path):
    folder, text = in_pieces
    out = tmp_path / "out"
    (stage,), taken = teacher_stages(given(folder, text, out))
    assert stage.name == "teacher" and taken == stage.product == out / "teacher/ctranslate2"
    taken.parent.mkdir(parents=True)
    take(**stage.command.arguments)
    for vocabulary, names, words in (
        ("keep", [], taken),
        ("trim", ["pieces", "vocabulary"], out / "trimmed"),
        ("30", ["vocabulary"], out / "vocabulary"),
    ):
        asked = given(folder, text, out, vocabulary=vocabulary)
        translate, _decode = corpus_stages(asked, taken)[0]
        assert translate.command[:3] == ("pet-fairseq", "translate-corpus", str(taken))
        stages, found = vocabulary_stages(asked, taken)
        assert ([stage.name for stage in stages], found) == (names, words)
    pieces, _ = data_stages(given(folder, text, out), taken)[0]
    assert pieces.command.arguments["engine"] == taken


def test_languages_are_those_of_the_folder_or_the_user(in_pieces, tmp_path):
    folder, text = in_pieces
    (stage,), _ = teacher_stages(given(folder, text, tmp_path / "out", languages=None))
    assert stage.command.arguments["languages"] == ("de", "en")
    (folder / "languages.json").unlink()
    with pytest.raises(UserError, match="--source-lang and --target-lang: missing; TEACHER"):
        teacher_stages(given(folder, text, tmp_path / "out", languages=None))


def test_nothing_to_translate(in_pieces, tmp_path):
    folder, text = in_pieces
    with pytest.raises(UserError, match=r"--text: missing; TEACHER .* teaches by its translations"):
        teacher_stages(
            given(folder, text, tmp_path / "out", text=(), pairs={"train": (text, text)})
        )
    model = tmp_path / "spm.model"
    checkpoint = tmp_path / "engine.pt"
    with pytest.raises(UserError, match="--sentencepiece and --bpe: are for a TEACHER in CTran"):
        check_given(given(checkpoint, text, tmp_path / "out", subwords={"spm.model": model}))


def test_without_ctranslate2(in_pieces, tmp_path, monkeypatch):
    folder, text = in_pieces
    monkeypatch.setattr("pet_fairseq.compress.preparation.has_ctranslate2", lambda: False)
    with pytest.raises(UserError, match=r"TEACHER .*: ctranslate2 is missing; pip install"):
        teacher_stages(given(folder, text, tmp_path / "out"))


def test_binary_data_beside_an_engine(in_pieces, tmp_path):
    folder, text = in_pieces
    with pytest.raises(UserError, match=r"--data: is for a TEACHER in fairseq; .* --train-pair"):
        teacher_stages(given(folder, text, tmp_path / "out", data=tmp_path))

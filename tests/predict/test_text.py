"""Tokenizer and BPE by the options of fairseq-interactive."""

import pytest
from fairseq.data import Dictionary

from pet_fairseq.checkpoints.text_files import find_segmentation
from pet_fairseq.errors import UserError
from pet_fairseq.predict.sentences import TextTooLongError
from pet_fairseq.predict.text import (
    Text,
    build_text,
    find_subword_file,
    has_no_capitals,
    has_pieces,
    join_pieces,
    options_of_text,
    parse_text_options,
)
from tests.byte_pieces import PIECES, TEXT, TEXTS, train


def text_of(*words, **defaults):
    return build_text(parse_text_options(list(words), "pet-fairseq", **defaults))


def test_nothing_chosen():
    assert text_of().encode("Ein  Hund.") == text_of().decode("Ein  Hund.") == "Ein  Hund."


def test_tokenizer_and_bpe_there_and_back(tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nH u\nn d</w>\n")
    text = text_of("--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", str(codes))
    assert text.encode("Ein Hund.") == "E@@ i@@ n Hu@@ nd ."
    assert text.decode("E@@ i@@ n Hu@@ nd .") == "Ein Hund."


@pytest.mark.parametrize("kind", ["sentencepiece", "marian"])
def test_pieces_of_bytes_become_characters(kind, tmp_path):
    train(tmp_path / "spm.model")
    text = text_of("--bpe", kind, "--sentencepiece-model", str(tmp_path / "spm.model"))
    assert [text.decode(text.encode(line)) for line in TEXTS] == TEXTS
    assert text.decode(PIECES) == TEXT == join_pieces(PIECES, "sentencepiece")
    assert join_pieces("a@@ <0x41>", "subword_nmt") == "a<0x41>"


def test_languages_come_from_the_task_unless_given():
    def languages(*words):
        args = parse_text_options([*words], "pet-fairseq", source_lang="fr", target_lang=None)
        return args.source_lang, args.target_lang

    assert languages("--tokenizer", "moses") == ("fr", "en")
    assert languages("--tokenizer", "moses", "--source-lang", "it") == ("it", "en")
    text = text_of("--tokenizer", "moses", source_lang="fr", target_lang="fr")
    assert text.encode("l'eau") == "l&apos; eau"


@pytest.mark.parametrize(
    "words, message",
    [
        (["--bpe", "subword_nmt"], "--bpe-codes is missing"),
        (["--bpe", "nothing"], "invalid choice: 'nothing'"),
        (["--bpe-codes", "x"], "unrecognized arguments: --bpe-codes x"),
        (["--buffer", "3"], "unrecognized arguments: --buffer 3"),
    ],
)
def test_bad_options(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_text_options(words, "pet-fairseq serve")
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pet-fairseq serve: error: ") and message in line


def test_codes_that_are_not_there():
    with pytest.raises(UserError, match="/none: no such file"):
        text_of("--bpe", "subword_nmt", "--bpe-codes", "/none")


@pytest.mark.parametrize(
    "text, message",
    [
        ("ab " * 7, "text: 21 characters, at most 20 are taken"),
        ("ab abcdef a", "text: a word of 6 characters, at most 5 are taken without a space"),
        ("abc\tdef", "text: a word of 7 characters"),  # BPE divides at spaces only
    ],
)
def test_long_texts_and_words_are_refused_before_anything_is_done(text, message):
    class Untouched:
        def encode(self, text):
            return f"<{text}>"

    served = Text(bpe=Untouched(), max_chars=20, max_word_chars=5)
    assert served.encode("abcde abcde abcde ab") == "<abcde abcde abcde ab>"
    with pytest.raises(TextTooLongError) as error:
        served.encode(text)
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"\x80\xff\x00", b"one\nw 3 4\n"])
def test_codes_that_are_none(content, tmp_path, capfd):
    """subword-nmt would end the program at a line that is none of codes."""
    (tmp_path / "codes").write_bytes(content)
    with pytest.raises(UserError, match="codes: holds no BPE codes; give the subword model of"):
        text_of("--bpe", "subword_nmt", "--bpe-codes", str(tmp_path / "codes"))
    assert capfd.readouterr().err == ""


def test_a_tokenizer_that_nobody_knows():
    with pytest.raises(UserError, match=r"tokenizer 'mose': not known; give one of .*moses"):
        options_of_text({}, "", "mose")


@pytest.mark.parametrize(
    "word, is_piece",
    [("ab@@", True), ("\u2581ab", True), ("##ab", True), ("##", False), ("a##b", False)],
)
def test_pieces(word, is_piece):
    words = Dictionary()
    words.add_symbol("whole")
    words.add_symbol(word)
    assert has_pieces(words) == is_piece


def words_of(*words):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def test_the_mark_that_most_words_carry():
    assert find_segmentation(words_of("\u2581a", "\u2581b", "@@")) == "sentencepiece"
    assert find_segmentation(words_of("a@@", "b@@", "\u2581")) == "subword_nmt"
    assert find_segmentation(words_of("a", "b")) is None


@pytest.mark.parametrize(
    "word, own, other",
    [
        ("\u2581a", "spm.model", "bpe.codes"),
        ("\u2581a", "source.spm", "codes"),
        ("a@@", "bpecodes", "sentencepiece.bpe.model"),
        ("a@@", "code", "source.spm"),
    ],
)
def test_a_subword_model_of_another_kind_is_passed_over(word, own, other, tmp_path):
    """Also one that lies nearer."""
    near, above = tmp_path / "data/bin", tmp_path / "data"
    near.mkdir(parents=True)
    (near / other).touch()
    words = words_of("whole", word)
    with pytest.raises(UserError, match=r"^--bpe: the model's words are pieces, and there is no"):
        find_subword_file(words, [near, above], "--bpe", "give it")
    for folder in (above, near):
        (folder / own).touch()
        assert find_subword_file(words, [near, above], "--bpe", "give it") == str(folder / own)
    (near / own).unlink()
    (near / "tokenizer.json").touch()  # may be of any kind
    found = find_subword_file(words, [near, above], "--bpe", "give it")
    assert found == str(near / "tokenizer.json")


def test_a_sentencepiece_model_before_the_tokenizer_json_made_of_it(tmp_path):
    """`pet-fairseq export --to onnx` writes both; only the model keeps `</s>` in a text as text."""
    for name in ("tokenizer.json", "source.spm"):
        (tmp_path / name).touch()
    found = find_subword_file(words_of("\u2581a"), [tmp_path], "--bpe", "give it")
    assert found == str(tmp_path / "source.spm")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["ein", "h@@", "und", "&apos;s", "."], True),
        (["ein", "H@@", "und"], False),
        (["ein", "<mask>", "<URL>"], True),  # special words are in no text
        (["5", "kirja", "KIRJA"], False),
        (["犬", "は", "12"], False),  # a script without capital letters
        ([], False),
    ],
)
def test_a_dictionary_without_capital_letters(words, expected):
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    assert has_no_capitals(dictionary) is expected


def test_capital_letters_that_a_model_does_not_know_are_warned_of_once(caplog):
    text = Text(no_capitals=True)
    assert text.encode("ein hund .") == "ein hund ." and not caplog.records
    assert [text.encode("Ein hund ."), text.encode("Der hund .")] == ["Ein hund .", "Der hund ."]
    (record,) = caplog.records
    assert "capital letters" in record.message and "lower case" in record.message
    caplog.clear()
    Text().encode("Ein Hund .")
    assert not caplog.records

"""Tiny random multilingual translators of transformers with their own tokenizers."""

import json
from typing import NamedTuple

import sentencepiece
import torch

from tests.huggingface import transformers_models as theirs

transformers = theirs.transformers
TEXTS = ["The cat sat on the mat.", "A dog ate", "Rats eat oats, and the hat ran!"]
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
END = 2


class Translator(NamedTuple):
    """A model, its tokenizer for the source, a pair of languages, and the target's token.

    start: what the decoder reads before the translation.
    """

    model: object
    tokenizer: object
    pair: tuple
    start: list


def sentence_model(file, **options):
    """A SentencePiece model of TEXTS; returns its pieces."""
    usual = dict(vocab_size=45, hard_vocab_limit=False, model_type="unigram", minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5),
        model_prefix=str(file.with_suffix("")),
        **usual | options,
    )
    file.with_suffix(".model").rename(file)
    file.with_suffix(".vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(i) for i in range(len(model))]


@torch.no_grad()
def ending_soon(model, matrix, bias):
    """Make </s> so likely that translations end."""
    end = matrix.weight[model.config.eos_token_id]
    bias.add_(end * 2 / end.square().sum())
    return model


def m2m_model(folder, tokenizer_size, **config):
    sizes = dict(vocab_size=tokenizer_size, d_model=16, max_position_embeddings=40, **theirs.STACKS)
    config = transformers.M2M100Config(init_std=0.3, **sizes | config)
    model = theirs.randomise(transformers.M2M100ForConditionalGeneration(config))
    ending_soon(model, model.model.shared, model.model.decoder.layer_norm.bias)
    return theirs.save(model, folder)


def nllb(folder, legacy=False, **config):
    """With a tokenizer.json, as NLLB's."""
    languages = ["eng_Latn", "deu_Latn", "fra_Latn"]
    letters = sorted(set("".join(TEXTS).replace(" ", "")))
    merges = [("c", "at"), ("a", "t"), ("h", "e"), ("\u2581", "t")]
    pieces = [*FIRST, "\u2581", *letters, *("".join(pair) for pair in merges)]
    merges = [merges[1], merges[0], *merges[2:]]
    tokenizer = transformers.NllbTokenizer(
        vocab={piece: i for i, piece in enumerate(pieces)},
        merges=merges,
        extra_special_tokens=languages,
        legacy_behaviour=legacy,
        src_lang="deu_Latn",
    )
    tokenizer.save_pretrained(folder)
    model = m2m_model(folder, len(tokenizer) + 2, **config)
    pair = ("deu_Latn", "fra_Latn")
    return Translator(model, tokenizer, pair, [END, tokenizer.convert_tokens_to_ids(pair[1])])


def m2m_100(folder, **config):
    """With vocab.json and a SentencePiece model, as M2M-100's."""
    folder.mkdir()
    pieces = sentence_model(folder / "sentencepiece.bpe.model")
    theirs.write_numbers(folder / "vocab.json", [*FIRST, *pieces[3:]])
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "M2M100Tokenizer"}')
    tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="de")
    model = m2m_model(folder, len(pieces) + 1 + 100 + 8, **config)
    return Translator(model, tokenizer, ("de", "zu"), [END, tokenizer.get_lang_id("zu")])


def mbart(folder, kind="MBart50Tokenizer", **config):
    """With a tokenizer.json; mBART-50's tokens stand in front, mBART's behind."""
    folder.mkdir()
    pieces = sentence_model(folder / "sentencepiece.bpe.model")
    scored = [(piece, -float(i)) for i, piece in enumerate([*FIRST, *pieces[3:]])]
    kind = getattr(transformers, kind)
    codes = kind.__init__.__globals__["FAIRSEQ_LANGUAGE_CODES"]
    scored += [(piece, 0.0) for piece in (*codes, "<mask>")]
    tokenizer = kind(vocab=scored, src_lang="de_DE")
    tokenizer.save_pretrained(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    return mbart_model(folder, tokenizer, "50" in kind.__name__, **config)


def mbart_of_pieces(folder):
    """mBART-50 as it is distributed: a SentencePiece model and a list of the languages."""
    folder.mkdir()
    sentence_model(folder / "sentencepiece.bpe.model")
    kind = transformers.MBart50Tokenizer
    codes = kind.__init__.__globals__["FAIRSEQ_LANGUAGE_CODES"]
    listed = json.dumps({"additional_special_tokens": codes})
    (folder / "special_tokens_map.json").write_text(listed)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "MBart50Tokenizer"}')
    tokenizer = kind.from_pretrained(folder, src_lang="de_DE")
    return mbart_model(folder, tokenizer, True)


def mbart_model(folder, tokenizer, in_front, **config):
    sizes = dict(vocab_size=len(tokenizer), d_model=16, max_position_embeddings=40, **theirs.STACKS)
    target = tokenizer.convert_tokens_to_ids("ro_RO")
    sizes |= dict(scale_embedding=True, decoder_start_token_id=END if in_front else target)
    config = transformers.MBartConfig(init_std=0.3, **sizes | config)
    model = theirs.randomise(transformers.MBartForConditionalGeneration(config))
    ending_soon(model, model.model.shared, model.model.decoder.layer_norm.bias)
    start = [END, target] if in_front else [target]
    return Translator(theirs.save(model, folder), tokenizer, ("de_DE", "ro_RO"), start)


def marian(folder):
    """An OPUS-MT model with several target languages."""
    folder.mkdir()
    pieces = sentence_model(folder / "source.spm")
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    pieces = ["</s>", "<unk>", ">>zlm_Latn<<", ">>fra<<", *pieces[3:], "<pad>"]
    model = theirs.marian(folder, pieces=pieces, max_position_embeddings=40)
    names = dict(source_lang="de", target_lang="mul")
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    model.final_logits_bias[0, 0] += 2
    model.save_pretrained(folder)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    return Translator(model, tokenizer, ("de", "fra"), [len(pieces) - 1])


FSMT_WORDS = [*FIRST, *theirs.WORDS, "w0@@", "madeupword0001"]
FSMT_TARGET = [*FIRST, *theirs.WORDS[:7], "w1@@"]


def fsmt(
    folder,
    source=FSMT_WORDS,
    target=FSMT_TARGET,
    merges=(),
    tied=False,
    trained_positions=False,
    **config,
):
    """A model of fairseq's words, which are written as FSMT writes them.

    tied: whether the output is the decoder's embeddings, as in files of earlier versions.
    """
    folder.mkdir()
    for name, words in (("src", source), ("tgt", target)):
        ending = [
            word if word in FIRST else word.removesuffix("@@") if "@@" in word else f"{word}</w>"
            for word in words
        ]
        theirs.write_numbers(folder / f"vocab-{name}.json", ending)
    (folder / "merges.txt").write_text("".join(f"{merge}\n" for merge in merges))
    languages = {"langs": ["de", "en"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(languages))
    sizes = dict(d_model=16, max_position_embeddings=24, init_std=0.3, **theirs.STACKS)
    sizes |= dict(src_vocab_size=len(source), tgt_vocab_size=len(target), **languages)
    config = transformers.FSMTConfig(**sizes | config)
    model = transformers.FSMTForConditionalGeneration(config)
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.requires_grad_(trained_positions)
    theirs.randomise(model)
    if tied:
        decoder = model.model.decoder
        decoder.output_projection.weight.data.copy_(decoder.embed_tokens.weight)
    return theirs.save(model, folder)

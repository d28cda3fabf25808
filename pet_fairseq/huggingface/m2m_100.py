"""Import of M2M-100 and NLLB as bilingual Transformers of fairseq."""

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.bert import ACTIVATIONS
from pet_fairseq.huggingface.encoder_decoder import (
    PRE_NORM,
    BilingualText,
    dictionary_files,
    norm_parts,
    position_limits,
    shared_tensors,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.fsmt import BPE_TOKENIZER, SENTENCE_TOKENIZER, read_bilingual_text
from pet_fairseq.huggingface.source import Source
from pet_fairseq.huggingface.text_pieces import choose_pair, read_text_pieces
from pet_fairseq.huggingface.tokenizer_file import JSON_TOKENIZERS, OPTIONS, read_options
from pet_fairseq.huggingface.vocabulary import FIRST, make_vocabulary
from pet_fairseq.huggingface.writer import Import
from pet_fairseq.multilingual.language_tokens import END, LanguageTokens


def read_m2m(source: Source) -> Import:
    """Describe an M2M-100 or NLLB to the writer, or a model of one pair of languages in their form.

    Raises:
        UserError: options, languages or files that do not fit.
    """
    config = source.config
    config.refuse(tie_word_embeddings=True)
    config.check_head("ConditionalGeneration")
    kind = read_options(source.folder / OPTIONS).get("tokenizer_class")
    is_bilingual = kind in (BPE_TOKENIZER, SENTENCE_TOKENIZER, *JSON_TOKENIZERS)
    text, tokens = read_pair(source) if is_bilingual else read_languages(source)
    vocabulary = text.vocabularies[0]
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    arch = ["--arch", "transformer" if is_bilingual else "bilingual_transformer"]
    arch += [*size_options(config), *PRE_NORM]
    arch += ["--activation-fn", config.choose("activation_function", ACTIVATIONS)]
    arch += ["--share-all-embeddings"]
    arch += [] if config["scale_embedding"] else ["--no-scale-embedding"]
    arch += tokens.command_words()
    return Import(
        translation_task(*text.languages),
        arch + position_limits(config.size("max_position_embeddings")),
        dictionary_files(text.languages, vocabulary),
        shared_tensors(weights, config, vocabulary, norm_parts("layer_norm")),
        f"{len(vocabulary):,} words, {' to '.join(text.languages)}",
        text.write,
        text.options,
    )


def read_pair(source: Source) -> tuple[BilingualText, LanguageTokens]:
    """The text of a model of one pair of languages, which has no language tokens.

    Raises:
        UserError: files that do not fit, or two vocabularies.
    """
    config = source.config
    ends = FIRST.index(END)
    config.refuse(pad_token_id=FIRST.index("<pad>"), decoder_start_token_id=ends, eos_token_id=ends)
    rows = config.size("vocab_size")
    text = read_bilingual_text(source, rows, rows)
    if text.vocabularies[0].words != text.vocabularies[1].words:
        raise UserError(
            f"{source.folder}: source and target have vocabularies of their own, but the model has "
            "one matrix for both; give files that belong together"
        )
    return text, LanguageTokens()


def read_languages(source: Source) -> tuple[BilingualText, LanguageTokens]:
    """The text of a multilingual model, for the pair of languages that the user chose.

    Raises:
        UserError: languages or files that do not fit.
    """
    config = source.config
    text = read_text_pieces(source)
    languages = choose_pair(source, text)
    special = {word: text.numbers.get(word) for word in FIRST}
    config.refuse(pad_token_id=special["<pad>"])
    config.refuse(decoder_start_token_id=special[END], eos_token_id=special[END])
    rows = config.size("vocab_size")
    vocabulary = make_vocabulary(text.in_order(), rows, special, text.path)
    tokens = language_tokens(source, *(text.languages[language] for language in languages))
    both = (vocabulary, vocabulary)
    return BilingualText(languages, both, text.write, text.options), tokens


def language_tokens(source: Source, source_token: str, target_token: str) -> LanguageTokens:
    """What the model reads around sentences; NLLB's older tokenizers put the source's token last.

    The tokenizer's options say so, by legacy_behaviour.
    """
    if read_options(source.folder / OPTIONS).get("legacy_behaviour"):
        return LanguageTokens((), (END, source_token), (END, target_token))
    return LanguageTokens((source_token,), (END,), (END, target_token))

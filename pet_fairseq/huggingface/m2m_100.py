"""Import of M2M-100 and NLLB as bilingual Transformers of fairseq."""

from pet_fairseq.huggingface.bert import ACTIVATIONS
from pet_fairseq.huggingface.encoder_decoder import (
    dictionary_files,
    norm_parts,
    position_limits,
    shared_tensors,
    size_options,
    translation_task,
)
from pet_fairseq.huggingface.source import Source
from pet_fairseq.huggingface.text_pieces import choose_pair, read_text_pieces
from pet_fairseq.huggingface.tokenizer_file import OPTIONS, read_options
from pet_fairseq.huggingface.vocabulary import FIRST, make_vocabulary
from pet_fairseq.huggingface.writer import Import
from pet_fairseq.multilingual.language_tokens import END, LanguageTokens

PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]


def read_m2m(source: Source) -> Import:
    """Describe an M2M-100 or NLLB to the writer.

    Raises:
        UserError: options, languages or files that do not fit.
    """
    config = source.config
    text = read_text_pieces(source)
    languages = choose_pair(source, text)
    special = {word: text.numbers.get(word) for word in FIRST}
    config.refuse(tie_word_embeddings=True, pad_token_id=special["<pad>"])
    config.refuse(decoder_start_token_id=special[END], eos_token_id=special[END])
    config.check_head("ConditionalGeneration")
    weights = source.weights.renamed(lambda name: name.removeprefix("model."))
    vocabulary = make_vocabulary(text.in_order(), config.size("vocab_size"), special, text.path)
    arch = ["--arch", "bilingual_transformer", *size_options(config), *PRE_NORM]
    arch += ["--activation-fn", config.choose("activation_function", ACTIVATIONS)]
    arch += ["--share-all-embeddings"]
    arch += [] if config["scale_embedding"] else ["--no-scale-embedding"]
    tokens = (text.languages[language] for language in languages)
    arch += language_tokens(source, *tokens).command_words()
    return Import(
        translation_task(*languages),
        arch + position_limits(config.size("max_position_embeddings")),
        dictionary_files(languages, vocabulary),
        shared_tensors(weights, config, vocabulary, norm_parts("layer_norm")),
        f"{len(vocabulary):,} words, {' to '.join(languages)}",
        text.write,
        text.options,
    )


def language_tokens(source: Source, source_token: str, target_token: str) -> LanguageTokens:
    """What the model reads around sentences; NLLB's older tokenizers put the source's token last.

    The tokenizer's options say so, by legacy_behaviour.
    """
    if read_options(source.folder / OPTIONS).get("legacy_behaviour"):
        return LanguageTokens((), (END, source_token), (END, target_token))
    return LanguageTokens((source_token,), (END,), (END, target_token))

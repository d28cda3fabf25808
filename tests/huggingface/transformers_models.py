"""Tiny random models of the library transformers, saved as their users save them."""

import json

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.bert import PIECES, write_bert

transformers = pytest.importorskip("transformers")

WORDS = [f"w{i}" for i in range(20)]
SMALL = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=24)
STACKS = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in dict(layers=2, ffn_dim=24, attention_heads=4).items()
}
ROBERTA_PIECES = ["<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>"]
LM_PIECES = [*WORDS, "<|end|>", "<|start|>"]
LM = dict(vocab_size=len(LM_PIECES), eos_token_id=20, bos_token_id=21, initializer_range=0.2)
BLANK = "\u2581"  # as SentencePiece writes it
UNIGRAMS = [BLANK, *"abcde", *(f"{BLANK}{letter}" for letter in "abc"), "ab", "bcd", "dea", "ee"]
SENTENCE_PIECES = {
    "XLMRoberta": ["<s>", "<pad>", "</s>", "<unk>", *UNIGRAMS, "<mask>"],
    "Camembert": [  # fairseq's four words, of which it uses other ones
        *("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        *("<s>", "</s>", *UNIGRAMS, "<mask>"),
    ],
}
MARIAN_PIECES = ["</s>", "<unk>", *WORDS, "<pad>"]
TARGET_PIECES = ["</s>", "<unk>", *(f"v{i}" for i in range(20)), "<pad>", "v20", "v21"]
T5_PIECES = ["<pad>", "</s>", "<unk>", *WORDS, "<extra_id_1>", "<extra_id_0>"]


def word_tokenizer(folder, pieces, **options):
    """A tokenizer.json of whole words; pieces in angle brackets are special ones."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=options.get("unk_token", "w0")))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = [piece for piece in pieces if piece[0] == "<"]
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in special])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


def unigram_tokenizer(folder, pieces):
    """A tokenizer.json as those of XLM-R and CamemBERT."""
    folder.mkdir(parents=True, exist_ok=True)
    scores = torch.randn(len(pieces)).tolist()
    tokenizer = Tokenizer(models.Unigram([*zip(pieces, scores)], unk_id=pieces.index("<unk>")))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(BLANK)]
    )
    tokenizer.decoder = decoders.Metaspace(BLANK)
    special = [piece for piece in pieces if piece[0] == "<"]
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in special])
    first, last = ((piece, pieces.index(piece)) for piece in ("<s>", "</s>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[first, last]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def byte_level_tokenizer(lines):
    """BPE of bytes that is trained on lines as a whole, without words."""
    tokenizer = Tokenizer(models.BPE())
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = whole
    alphabet = whole.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def randomise(model):
    """No bias is 0 and no norm is the identity."""
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, model.parameters()):
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def save(model, folder, **options):
    model.save_pretrained(folder, **options)
    return model


def bert(folder, head="MaskedLM", **config):
    """A BERT with the tokenizer of the tests without transformers."""
    write_bert(folder)
    config = transformers.BertConfig(
        vocab_size=len(PIECES), max_position_embeddings=24, **SMALL, **config
    )
    return save(randomise(getattr(transformers, f"BertFor{head}")(config)), folder)


def distilbert(folder, head="MaskedLM", **config):
    """A DistilBERT with BERT's tokenizer; head: None for the model without one."""
    write_bert(folder)
    sizes = dict(dim=16, n_layers=3, n_heads=4, hidden_dim=24, max_position_embeddings=24)
    kind = "DistilBertModel" if head is None else f"DistilBertFor{head}"
    config = transformers.DistilBertConfig(vocab_size=len(PIECES), **sizes | config)
    return save(randomise(getattr(transformers, kind)(config)), folder)


def roberta(folder, head="MaskedLM", kind="Roberta", **config):
    pieces = SENTENCE_PIECES.get(kind)
    if pieces is None:
        word_tokenizer(folder, ROBERTA_PIECES)
    else:
        unigram_tokenizer(folder, pieces)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(pieces or ROBERTA_PIECES),
        max_position_embeddings=26,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        **SMALL,
        **config,
    )
    return save(randomise(getattr(transformers, f"{kind}For{head}")(config)), folder)


def gpt2(folder, **config):
    word_tokenizer(folder, LM_PIECES, unk_token="<|end|>")
    config = transformers.GPT2Config(
        n_embd=16, n_layer=3, n_head=4, n_positions=24, **LM | dict(bos_token_id=20) | config
    )
    return save(randomise(transformers.GPT2LMHeadModel(config)), folder)


def llama(folder, kind="Llama", **options):
    word_tokenizer(folder, LM_PIECES)
    options = dict(num_key_value_heads=2, max_position_embeddings=24) | options
    if kind == "Mistral":
        options = dict(sliding_window=None) | options
    config = getattr(transformers, f"{kind}Config")(**SMALL, **LM, **options)
    return save(randomise(getattr(transformers, f"{kind}ForCausalLM")(config)), folder)


def bart(folder, kind="Bart", head="ConditionalGeneration", **config):
    word_tokenizer(folder, ROBERTA_PIECES)
    sizes = dict(vocab_size=len(ROBERTA_PIECES), d_model=16, max_position_embeddings=24, **STACKS)
    config = getattr(transformers, f"{kind}Config")(init_std=0.3, **sizes | config)
    return save(randomise(getattr(transformers, f"{kind}For{head}")(config)), folder)


def marian(folder, target=None, pieces=MARIAN_PIECES, **config):
    """A model as OPUS-MT's: post-norm, swish, scaled embeddings, a bias of the logits.

    target: the target's own pieces, if it has such. pieces: the source's, </s> first, <pad> last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pad = len(pieces) - 1
    options = dict(
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=24,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        **STACKS,
    )
    if target is not None:
        options |= dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=len(target))
        write_numbers(folder / "target_vocab.json", target)
    model = randomise(transformers.MarianMTModel(transformers.MarianConfig(**options | config)))
    model.final_logits_bias.normal_()
    write_numbers(folder / "vocab.json", pieces)
    names = dict(source_lang="de", target_lang="en")
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return save(model, folder)


def t5(folder, kind="T5", untied=False, values=2, **config):
    """A T5 whose heads have a width of their own, with few and narrow buckets of distances.

    untied: whether the output layer has a matrix of its own, as in T5 1.1. values: a factor of
    attention's values, by which texts matter more than what the decoder starts from.
    """
    word_tokenizer(folder, T5_PIECES, unk_token="<unk>")
    sizes = dict(d_model=16, d_kv=6, d_ff=24, num_heads=4, num_layers=3, num_decoder_layers=2)
    buckets = dict(relative_attention_num_buckets=8, relative_attention_max_distance=6)
    options = dict(vocab_size=len(T5_PIECES) + 1, decoder_start_token_id=0) | sizes | buckets
    config = getattr(transformers, f"{kind}Config")(**options | config)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(0.3 * torch.randn_like(model.lm_head.weight))
    randomise(model)
    for name, parameter in model.named_parameters():
        if "relative" in name:  # matters as much as the scores
            parameter.data.normal_()
        if name.endswith(".v.weight"):
            parameter.data.mul_(values)
    return save(model, folder)


def write_numbers(file, pieces):
    file.write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))


def load(tmp_path):
    """Import the files in tmp_path/hf; the model and its task."""
    import_model(tmp_path / "hf", tmp_path / "out")
    return load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")

"""A small imported BERT with a head for classes, and what it answers to raw text, by hand."""

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, processors

from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.bert import CONFIG, PIECES, features, write_bert

LABELS = ["worse", "same", "better"]
MARKS = [("[CLS]", PIECES.index("[CLS]")), ("[SEP]", PIECES.index("[SEP]"))]


def write_classifier(folder):
    """The folder as Hugging Face's libraries write it; returns its tensors."""
    kind = {"architectures": ["BertForSequenceClassification"]}
    weights = write_bert(folder, **kind, id2label=dict(enumerate(LABELS)))
    weights |= {
        "classifier.weight": torch.randn(len(LABELS), CONFIG["hidden_size"]),
        "classifier.bias": torch.randn(len(LABELS)),
    }
    save_file(weights, folder / "model.safetensors")
    return weights


def import_classifier(folder):
    """The folder of pet-fairseq import-hf, and the tensors that went into it."""
    weights = write_classifier(folder / "hf")
    import_model(folder / "hf", folder / "out")
    return folder / "out", weights


def read(folder, *sentences):
    """Numbers and types as the library tokenizers gives them, cut to BERT's positions; and whether
    something was cut."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=MARKS
    )
    tokenizer.no_truncation()
    whole = len(tokenizer.encode(*sentences).ids)
    tokenizer.enable_truncation(CONFIG["max_position_embeddings"], strategy="longest_first")
    encoding = tokenizer.encode(*sentences)
    return encoding.ids, encoding.type_ids, whole > len(encoding.ids)


def probabilities(weights, ids, types):
    """Of the classes: through the pooler and the head, in float64."""
    w = {name: tensor.double() for name, tensor in weights.items()}
    first = features(weights, ids, types)[0]
    pooled = torch.tanh(w["pooler.dense.weight"] @ first + w["pooler.dense.bias"])
    logits = w["classifier.weight"] @ pooled + w["classifier.bias"]
    return dict(zip(LABELS, logits.softmax(dim=0).tolist()))

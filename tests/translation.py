"""A translation task of a few words, its models, checkpoints and ragged batches."""

import argparse

import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from fairseq.tasks.translation import TranslationConfig, TranslationTask

WORDS = [f"w{i}" for i in range(12)]


def make_task(folder, words=WORDS, **options):
    """A translation task whose dictionaries lie in a folder, as fairseq-preprocess leaves them."""
    folder.mkdir(exist_ok=True)
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    for lang in ("de", "en"):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
    return load_task(folder, **options)


def load_task(folder, **options):
    """The task of a folder with dictionaries."""
    cfg = TranslationConfig(data=str(folder), source_lang="de", target_lang="en", **options)
    return TranslationTask.setup_task(cfg)


def make_model(task, arch="transformer_tiny", **options):
    options = {"dropout": 0.0, **options}
    args = argparse.Namespace(arch=arch, task="x", criterion="x", **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    return build_model(args, task), args


def save_model(path, task, arch="transformer_tiny", **options):
    """A checkpoint as fairseq writes it; returns its path as --teacher-path wants it."""
    model, args = make_model(task, arch, **options)
    name = "translation" if isinstance(task, TranslationTask) else "language_modeling"
    task_options = vars(getattr(task, "args", task.cfg))
    args._name = arch
    save_state(path, model, args, {**task_options, "_name": name})
    return str(path)


def save_state(path, model, model_options, task_options):
    """What fairseq writes of a model, and what it needs to load it."""
    state = {
        "args": None,
        "cfg": {"model": model_options, "task": task_options},
        "model": model.state_dict(),
        "optimizer_history": [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, path)


def save_another(path, checkpoint, task, arch, **options):
    """A checkpoint of fairseq-train with another, untrained model in it."""
    state = torch.load(checkpoint)
    model, state["cfg"]["model"] = make_model(task, arch, **options)
    state["cfg"]["model"]._name = arch
    state["model"] = model.state_dict()
    torch.save(state, path)


def write_subset(folder, name, sentences):
    """A set as fairseq-preprocess writes it: sentences of token numbers, the same on both sides."""
    for lang in ("de", "en"):
        path = str(folder / f"{name}.de-en.{lang}")
        builder = MMapIndexedDatasetBuilder(f"{path}.bin")
        for sentence in sentences:
            builder.add_item(torch.tensor(sentence))
        builder.finalize(f"{path}.idx")


def make_batch(task, lengths, columns=None, seed=0):
    """Sentences of these target lengths; the source is as long and left-padded, as in fairseq."""
    generator = torch.Generator().manual_seed(seed)
    pad, eos = task.target_dictionary.pad(), task.target_dictionary.eos()
    columns = columns or max(lengths)
    source, target, previous = (torch.full((len(lengths), columns), pad) for _ in range(3))
    for i, n in enumerate(lengths):
        words = torch.randint(4, len(task.target_dictionary), (2, n - 1), generator=generator)
        source[i, columns - n :] = torch.cat([words[0], torch.tensor([eos])])
        target[i, :n] = torch.cat([words[1], torch.tensor([eos])])
        previous[i, :n] = torch.cat([torch.tensor([eos]), words[1]])
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.tensor(lengths),
        "prev_output_tokens": previous,
    }
    return {"net_input": net_input, "target": target, "ntokens": sum(lengths)}


def select(batch, rows, columns):
    """Some sentences of a batch, cut to a width."""
    net_input = batch["net_input"]
    lengths = net_input["src_lengths"][rows]
    return {
        "net_input": {
            "src_tokens": net_input["src_tokens"][rows, -columns:],
            "src_lengths": lengths,
            "prev_output_tokens": net_input["prev_output_tokens"][rows, :columns],
        },
        "target": batch["target"][rows, :columns],
        "ntokens": int(lengths.sum()),
    }

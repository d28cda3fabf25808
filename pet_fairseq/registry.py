"""Registers everything with fairseq; importing the module does it.

The environment is checked before anything is imported that may not work in it.
"""

from importlib import import_module

from pet_fairseq import environment, errors

# what has a class that fairseq finds by a name: models, criteria, tasks, optimizers, tokenizers
REGISTERED = (
    *("baselines.can", "baselines.deep_shallow", "baselines.patient_kd"),
    "decoding.task",
    "distillation.criterion",
    *("huggingface.bert_model", "huggingface.gpt2", "huggingface.llama_model"),
    *("huggingface.marian_model", "huggingface.t5_model", "huggingface.bpe"),
    "multilingual.models",
    *("pet.simplified_task", "pet.transformer"),
    "predict.task",
    "quantisation.optimizer",
    *("selfcp.criterion", "selfcp.model", "selfcp.task"),
    *("variator.criterion", "variator.model", "variator.competitors.first_layers"),
    *("variator.competitors.narrow_ffn", "variator.competitors.token_pruning"),
    "variator.low_rank",
)

errors.install_excepthook()
environment.check()
import_module("pet_fairseq.numpy_compatibility").apply()
import_module("pet_fairseq.checkpoints.safe_loading").allow_fairseq_types()
for name in REGISTERED:
    import_module(f"pet_fairseq.{name}")

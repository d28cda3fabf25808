"""Files that `pet-fairseq import-hf` cannot import, each with the line that says so."""

import json
import pickle
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.checkpoints.written import Malicious
from tests.huggingface.bert import CONFIG, PIECES, write_bert
from tests.huggingface.llama import change_json, write_llama


@pytest.mark.parametrize("kind", ["opt", "gpt_neox", None, ["bert"]])
def test_another_type_of_model(kind, tmp_path, refused):
    write_llama(tmp_path / "hf", model_type=kind)
    refused(tmp_path / "hf", "config.json", f"of type {kind}", "bert, distilbert", "gpt2, llama")


def write_shards(folder):
    """Two files of tensors and their index."""
    write_llama(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map = {}
    for i, names in enumerate((list(tensors)[::2], list(tensors)[1::2]), start=1):
        file = f"model-0000{i}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    return index


def test_a_clone_without_its_large_files(tmp_path, refused):
    """Git LFS leaves a pointer where `git clone` runs without it."""
    write_llama(tmp_path / "hf")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n"
    (tmp_path / "hf/model.safetensors").write_text(pointer)
    refused(tmp_path / "hf", "model.safetensors: is a pointer of Git LFS", "run git lfs pull")


def test_a_missing_shard(tmp_path, refused):
    index = write_shards(tmp_path / "hf")
    (tmp_path / "hf/model-00002-of-00002.safetensors").unlink()
    refused(tmp_path / "hf", "model-00002-of-00002.safetensors: no such file", index.name)
    index.write_text("{}")
    refused(tmp_path / "hf", f"{index.name}: has no weight_map")


def test_a_shard_outside_the_folder(tmp_path, refused):
    index = write_shards(tmp_path / "hf")
    outside = tmp_path / "model-00002-of-00002.safetensors"
    (tmp_path / "hf" / outside.name).rename(outside)
    names = json.loads(index.read_text())["weight_map"]
    names = {name: file.replace(outside.name, str(outside)) for name, file in names.items()}
    index.write_text(json.dumps({"weight_map": names}))
    refused(tmp_path / "hf", "no such file")


def lie(content, change):
    """A safetensors file with another header."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header = change(header) or header
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def longer(header):
    header["model.norm.weight"]["shape"] = [13]


def beyond_the_end(header):
    start, _ = header["model.norm.weight"]["data_offsets"]
    header["model.norm.weight"] |= {"shape": [1 << 40], "data_offsets": [start, start + (4 << 40)]}


@pytest.mark.parametrize(
    "change",
    [
        lambda content: lie(content, longer),
        lambda content: lie(content, beyond_the_end),
        lambda content: struct.pack("<Q", 1 << 62) + content[8:],
        lambda content: content[:-4],
        lambda content: b"",
    ],
)
def test_a_header_that_lies(change, tmp_path, refused):
    write_llama(tmp_path / "hf")
    file = tmp_path / "hf/model.safetensors"
    file.write_bytes(change(file.read_bytes()))
    refused(tmp_path / "hf", "model.safetensors: not readable")


def test_a_tokenizer_of_another_size(tmp_path, refused):
    write_bert(tmp_path / "more", vocab_size=len(PIECES) - 2)
    refused(tmp_path / "more", "tokenizer.json", "has 15 pieces", "13 rows")
    write_bert(tmp_path / "fewer", vocab_size=600)
    refused(tmp_path / "fewer", "has 15 pieces", "600 rows")
    write_bert(tmp_path / "matrix", vocab_size=len(PIECES) + 4)
    refused(tmp_path / "matrix", "vocab_size is 19, but the tensors have 15 rows")


def test_a_head_of_other_classes(tmp_path, refused):
    width = CONFIG["hidden_size"]
    kind = {"architectures": ["BertForSequenceClassification"]}
    weights = write_bert(tmp_path / "hf", **kind, id2label={"0": "no", "1": "yes"})
    weights |= {"classifier.weight": torch.zeros(3, width), "classifier.bias": torch.zeros(3)}
    save_file(weights, tmp_path / "hf/model.safetensors")
    refused(tmp_path / "hf", "its head has 3 classes", "names 2")
    change_json(tmp_path / "hf/config.json", id2label={"1": "no", "2": "a", "3": "b"})
    refused(tmp_path / "hf", "the keys of id2label are not 0, 1, 2")
    for names in (["a", "a", "b"], ["<unk>", "a", "b"]):
        change_json(tmp_path / "hf/config.json", id2label=dict(enumerate(names)))
        refused(tmp_path / "hf", f"config.json: {names[0]} in id2label is the name of two classes")
    change_json(tmp_path / "hf/config.json", problem_type="multi_label_classification")
    refused(tmp_path / "hf", "problem_type is multi_label_classification")


@pytest.mark.parametrize("old_format", [False, True])
def test_code_in_a_pickle(old_format, tmp_path, refused):
    write_llama(tmp_path / "hf")
    (tmp_path / "hf/model.safetensors").unlink()
    content = {"a": torch.zeros(2), "b": Malicious(tmp_path / "harm")}
    zipped = not old_format
    torch.save(content, tmp_path / "hf/pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    refused(tmp_path / "hf", "pytorch_model.bin: refused", "could run code")
    (tmp_path / "hf/pytorch_model.bin").write_bytes(pickle.dumps(Malicious(tmp_path / "harm")))
    refused(tmp_path / "hf", "pytorch_model.bin: refused")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 3}, "has no layers.2.input_layernorm.weight"),
        ({"hidden_size": 10}, "other sizes than in config.json"),
        ({"hidden_size": "12"}, "hidden_size is '12', no positive whole number"),
        ({"num_key_value_heads": 4}, "--decoder-key-value-heads 4: give a divisor"),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, "rope_type is yarn"),
        ({"attention_bias": True}, "attention_bias is True, which is not supported"),
        ({"sliding_window": 0}, "sliding_window is 0, no positive whole number"),
        ({"model_type": "qwen3", "attention_bias": True}, "attention_bias is True, which is not"),
        ({"rope_scaling": ["linear"]}, "rope_scaling is ['linear'], no object"),
        ({"head_dim": 5}, "--decoder-head-dim 5: rotary positions need heads of an even width"),
        (
            {"quantization_config": {"quant_method": "fp8"}},
            "config.json: has a quantization_config",
        ),
        ({"architectures": ["LlamaForSequenceClassification"]}, "supported are LlamaForCausalLM"),
        ({"eos_token_id": 50256}, "eos_token_id is 50256, but the model has 12 words; give the"),
        ({"bos_token_id": "<s>"}, "bos_token_id is '<s>', but the model has 12 words; give the"),
    ],
)
def test_options_that_do_not_fit(config, message, tmp_path, refused):
    write_llama(tmp_path / "hf", **config)
    refused(tmp_path / "hf", message)


def test_an_untied_language_model_without_its_head(tmp_path, refused):
    weights = write_llama(tmp_path / "hf")
    del weights["lm_head.weight"]
    save_file(weights, tmp_path / "hf/model.safetensors")
    refused(tmp_path / "hf", "model.safetensors: has no lm_head.weight")


def test_a_tensor_that_the_options_do_not_announce(tmp_path, refused):
    weights = write_llama(tmp_path / "hf")
    weights["model.layers.0.self_attn.o_proj.bias"] = torch.zeros(12)
    save_file(weights, tmp_path / "hf/model.safetensors")
    refused(tmp_path / "hf", "has a tensor for decoder.layers.0.self_attn.out_proj.bias, which")
    write_llama(tmp_path / "hf", model_type="qwen3")
    change_json(tmp_path / "hf/config.json", model_type="llama")
    refused(tmp_path / "hf", "has a tensor for decoder.layers.0.self_attn.q_norm.weight, which")


def test_a_qwen3_without_the_norms_of_its_heads(tmp_path, refused):
    write_llama(tmp_path / "hf")
    change_json(tmp_path / "hf/config.json", model_type="qwen3")
    refused(tmp_path / "hf", "has no tensor for decoder.layers.0.self_attn.q_norm.weight; give")


@pytest.mark.parametrize("head", ["TokenClassification", "QuestionAnswering"])
def test_heads_of_another_kind(head, tmp_path, refused):
    write_bert(tmp_path / "hf", architectures=[f"BertFor{head}"])
    refused(tmp_path / "hf", f"architectures is BertFor{head}, whose head is not supported")


def test_an_untied_head_for_words(tmp_path, refused):
    write_bert(tmp_path / "hf", head=True, tie_word_embeddings=False)
    refused(tmp_path / "hf", "tie_word_embeddings is False, which is not supported; only True is")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_of_a_folder(name, tmp_path, refused):
    write_llama(tmp_path)
    refused(tmp_path / name, f"{name}: give the folder with all of the model's files")


# what these need is in every model of their type that is known; checked before any tensor is read
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "roberta", "type_vocab_size": 2}, "type_vocab_size is 2, which is not"),
        ({"model_type": "xlm-roberta", "pad_token_id": 0}, "pad_token_id is 0, which is not"),
        ({"model_type": "camembert", "layer_norm_eps": 1e-12}, "layer_norm_eps is 1e-12"),
        ({"model_type": "gpt2", "scale_attn_weights": False}, "scale_attn_weights is False"),
        ({"model_type": "bart", "tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ({"model_type": "mbart"}, "final_logits_bias is not 0, and fairseq's bart has no such"),
        ({"model_type": "marian", "normalize_before": True}, "normalize_before is True"),
        (
            {"model_type": "marian", "pad_token_id": 3, "decoder_start_token_id": 0},
            "decoder_start_token_id is 0, which is not supported; only 3 is",
        ),
        (
            {
                **{"model_type": "marian", "pad_token_id": 3, "decoder_start_token_id": 3},
                "activation_function": ["swish"],
            },
            "activation_function is ['swish']; known are swish, silu, relu, gelu",
        ),
    ],
)
def test_models_that_their_type_does_not_have(config, message, tmp_path, refused):
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"final_logits_bias": torch.ones(1, 9)}, folder / "model.safetensors")
    refused(folder, message)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3}, "<pad> is number 3, but pad_token_id"),
        ({"</s>": 0, "<unk>": 1, "<pad>": 9}, "its numbers have gaps"),
    ],
)
def test_pieces_of_another_marian(numbers, message, tmp_path, refused):
    folder = tmp_path / "hf"
    folder.mkdir()
    config = dict(model_type="marian", pad_token_id=9, decoder_start_token_id=9, vocab_size=10)
    (folder / "config.json").write_text(json.dumps(config | {"activation_function": "swish"}))
    (folder / "vocab.json").write_text(json.dumps(numbers))
    save_file({"final_logits_bias": torch.ones(1, 10)}, folder / "model.safetensors")
    refused(folder, "vocab.json", message)

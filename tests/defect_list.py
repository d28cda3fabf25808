"""The defects that `python tests/defects.py` puts into the package, and who should notice."""

from typing import NamedTuple


class Defect(NamedTuple):
    """One place that is wrong: `text` stands there, `wrong` instead; `tests` should notice."""

    name: str
    text: str
    wrong: str
    tests: str


DEFECTS = (
    # PET: pairs, heads, attention
    Defect(
        "layers paired from the outside in",
        "numbers = [(i, i + half) for i in range(1, half + 1)]",
        "numbers = [(i, num_layers + 1 - i) for i in range(1, half + 1)]",
        "tests/pet/test_pairs.py",
    ),
    Defect(
        "queries and keys of a pair not crossed",
        'f"Q{i}=K{j} K{i}=Q{j}"',
        'f"Q{i}=Q{j} K{i}=K{j}"',
        "tests/pet/test_pairs.py",
    ),
    Defect(
        "padding mask flipped",
        "masked_fill(mask, torch.finfo(dtype).min / 2)",
        "masked_fill(~mask, torch.finfo(dtype).min / 2)",
        "tests/nn/test_attention.py",
    ),
    Defect(
        "no dropout where attention is computed in steps",
        "return F.dropout(weights.type_as(v), dropout) @ v",
        "return weights.type_as(v) @ v",
        "tests/nn/test_attention.py",
    ),
    Defect(
        "one incremental cache for all layers",
        "        super().__init__()\n        if head_dim is None",
        '        super().__init__()\n        self._incremental_state_id = "all"\n'
        "        if head_dim is None",
        "tests/nn/test_attention.py tests/pet/test_transformer.py",
    ),
    Defect(
        "the worst heads kept",
        "order = scores.argsort(dim=1, descending=True, stable=True)",
        "order = scores.argsort(dim=1, stable=True)",
        "tests/pet/test_head_sampling.py",
    ),
    Defect(
        "classes of the simplified task exchanged",
        "return 2 * (~right).long() + (~confident).long()",
        "return (~right).long() + 2 * (~confident).long()",
        "tests/pet/test_simplified_task.py",
    ),
    # distillation
    Defect(
        "padding counted in the loss",
        "real = tokens.ne(padding_idx)",
        "real = tokens.ne(-1)",
        "tests/distillation/test_criterion.py",
    ),
    Defect(
        "T^2 dropped",
        "alpha * temperature**2 * kl",
        "alpha * kl",
        "tests/distillation/test_loss.py",
    ),
    Defect(
        "KL the other way round",
        "F.kl_div(softened, teacher_log_probs, ",
        "F.kl_div(teacher_log_probs, softened, ",
        "tests/distillation/test_loss.py",
    ),
    Defect(
        "softmax over the tokens",
        "return F.log_softmax(logits[0].float() / temperature, dim=-1)",
        "return F.log_softmax(logits[0].float() / temperature, dim=0)",
        "tests/distillation",
    ),
    Defect(
        "the teacher keeps its dropout",
        "            model.eval()\n            freeze(model)",
        "            model.train()\n            freeze(model)",
        "tests/distillation",
    ),
    Defect(
        "the output layer of an LSTM counted as a layer",
        '"adaptive_softmax", "fc_out", "fc3")',
        '"adaptive_softmax", "fc3")',
        "tests/nn/test_parameters.py",
    ),
    Defect(
        "features of a mixed ensemble in the wrong precision",
        "features = [output.features[at] for output in outputs]",
        "features = torch.cat([output.features[at] for output in outputs], dim=-1).split("
        "[output.features.size(-1) for output in outputs], dim=-1)",
        "tests/distillation/test_kinds.py",
    ),
    Defect(
        "a decoder is not told to stop before its output layer",
        "return inputs, {**named, **arguments}",
        "return inputs, named",
        "tests/distillation/test_kinds.py",
    ),
    # quantisation
    Defect(
        "what rounding takes away is lost",
        "            master.copy_(parameter)\n",
        "            master.copy_(storable(parameter, self.cfg.quantised_bits))\n",
        "tests/quantisation/test_optimizer.py",
    ),
    Defect(
        "one scale for all rows",
        "matrix.abs().amax(dim=1, keepdim=True)",
        "matrix.abs().amax().expand(len(matrix), 1)",
        "tests/quantisation/test_grid.py",
    ),
    # checkpoints
    Defect(
        "unsafe loading allowed",
        "torch.serialization.add_safe_globals(FAIRSEQ_TYPES)",
        'os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"',
        "tests/cli/test_safety.py",
    ),
    Defect(
        "a training with --eval-bleu cannot be continued",
        "    *NUMPY_TYPES,\n",
        "",
        "tests/checkpoints/test_numbers.py tests/cli/test_checkpoints.py",
    ),
    Defect(
        "arrays of objects taken for numbers",
        "if code not in NUMBERS:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "a file believed on the size of a number",
        "if others != [None, None, None, -1, -1, 0]:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "the memory of an array freed while others see it",
        "if self.size:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "a file without options of a task called whole",
        'for part in ("model", "task") if cfg.get(part) is None]',
        'for part in ("model",) if cfg.get(part) is None]',
        "tests/checkpoints/test_safe_loading.py",
    ),
    Defect(
        "meters of fairseq 0.9 refused",
        'f"fairseq.meters.{meter.__name__}"',
        'f"fairseq.logging.meters.{meter.__name__}"',
        "tests/checkpoints/test_safe_loading.py",
    ),
    Defect(
        "shared tensors stored twice",
        "state_dict.pop(prefix + name, None)",
        "pass",
        "tests/checkpoints/test_tied_tensors.py tests/pet/test_transformer.py",
    ),
    Defect(
        "repair takes the oldest checkpoint",
        "return sorted(paths, key=key, reverse=True)",
        "return sorted(paths, key=key)",
        "tests/checkpoints/test_repair.py",
    ),
    # recipes
    Defect(
        "text prepared with other settings used again",
        '[ ! -f "$noted" ] || [ "$(cat "$noted")" = "$2" ] ||',
        "true ||",
        "tests/cli/test_prepare_steps.py",
    ),
    Defect(
        "a product of another command used again",
        "if new.get(name) != old.get(name)",
        "if False",
        "tests/runner/test_runner.py",
    ),
    Defect(
        "a product of other inputs used again",
        "if now.inputs.get(path) != before.inputs.get(path) and path in now.inputs:",
        "if False:",
        "tests/runner/test_runner.py",
    ),
    # baselines
    Defect(
        "CAN's decoder sees what comes",
        "attention_scores(q, target, attn_mask)",
        "attention_scores(q, target)",
        "tests/baselines/test_can.py",
    ),
    Defect(
        "patience: every layer follows the next one's",
        "return list(range(first, teacher_layers))",
        "return list(range(first + 1, teacher_layers + 1))",
        "tests/baselines/test_patience.py",
    ),
    Defect(
        "token pruning keeps padding like words",
        "return scores.masked_fill(padding_mask, -math.inf)",
        "return scores",
        "tests/variator/competitors/test_token_pruning.py",
    ),
    # Variator
    Defect(
        "what fills up the last group counts as words",
        "F.pad(padding_mask.T, (0, 0, 0, missing), value=True)",
        "F.pad(padding_mask.T, (0, 0, 0, missing), value=False)",
        "tests/variator/test_plugin.py",
    ),
    Defect(
        "decompression with its inputs exchanged",
        "down_group, down_member = self.down.weight.chunk(2, dim=1)",
        "down_member, down_group = self.down.weight.chunk(2, dim=1)",
        "tests/variator/test_plugin.py",
    ),
    Defect(
        "the decoder's distance taken before its last norm",
        "vectors = norm(vectors)",
        "vectors = vectors + 0 * norm(vectors)",
        "tests/variator/test_criterion.py",
    ),
    Defect(
        "plugins of other ratios trained",
        "plugin.requires_grad_(ratio == self.cfg.compression_ratio)",
        "plugin.requires_grad_(True)",
        "tests/variator/test_model.py",
    ),
    Defect(
        "half a group counted as none",
        "return -(-length // self.ratio)",
        "return length // self.ratio",
        "tests/variator/test_flops.py",
    ),
    Defect(
        "a group of a prompt hidden from its first member",
        "return join(keys) > join(queries)[:, None]",
        "return join(keys) >= join(queries)[:, None]",
        "tests/variator/test_decoder_only.py",
    ),
    Defect(
        "positions of a prompt seen beside their group",
        "torch.cat([empty, ~mask[:, first:], behind], dim=1)",
        "torch.cat([empty, mask[:, first:] & False, behind], dim=1)",
        "tests/variator/test_decoder_only.py",
    ),
    Defect(
        "cached groups at the wrong distance",
        'self.rotary.move(k, steps) if steps else k, "prev_value"',
        'k, "prev_value"',
        "tests/variator/test_decoder_only.py -k generation",
    ),
    Defect(
        "translations in the order of the batches",
        'translations[i] = answer["text"]',
        'translations[translations.index("")] = answer["text"]',
        "tests/cli/test_translate.py -k generate",
    ),
    Defect(
        "no position left for the end of a long line",
        "self.room = int(min(translator.max_tokens, sys.maxsize)) - 1",
        "self.room = int(min(translator.max_tokens, sys.maxsize))",
        "tests/cli/test_translate.py -k long_lines",
    ),
    Defect(
        "lines kept until others come",
        "if lines and (full or not select([raw], [], [], PATIENCE)[0]):",
        "if lines and full:",
        "tests/predict/test_lines.py",
    ),
    Defect(
        "the value of an old spelling left where it was",
        "positional = values or list(islice(rest, 1))",
        "positional = values",
        "tests/cli/test_commands.py -k old_spelling",
    ),
    Defect(
        "one scale for all rows of a weight of --precision int8",
        "scales = weight.abs().amax(dim=1).div(LARGEST)",
        "scales = weight.abs().max().expand(len(weight)).div(LARGEST)",
        "tests/predict/test_int8.py",
    ),
    Defect(
        "the oldest text left behind by shorter ones",
        "key=lambda i: abs(lengths[i] - lengths[0])",
        "key=lambda i: lengths[i]",
        "tests/serve/test_queue.py",
    ),
    Defect(
        "the last layers of a student in the place of the first",
        "del stack.layers[kept:]",
        "del stack.layers[:-kept]",
        "tests/variator/competitors/test_first_layers.py",
    ),
    Defect(
        "sentences drawn apart for the two models of a bootstrap",
        "draw.choice(differences, len(differences)).mean()",
        "(draw.choice(ours, len(ours)).mean() - draw.choice(theirs, len(theirs)).mean())",
        "tests/test_statistics.py",
    ),
    Defect(
        "neurons with another one's row",
        "return torch.cat([neurons + start for start in starts])",
        "return torch.cat([neurons + start for start in starts]).flip(0)",
        "tests/variator/competitors/test_narrow_ffn.py",
    ),
    Defect(
        "a gate that costs nothing",
        '"ffn_maps": 1 + maps_into(layer)',
        '"ffn_maps": 2',
        "tests/variator/test_imported.py -k costs",
    ),
    Defect(
        "the first word's probabilities for all words of a response",
        "logits, response, reduction",
        "logits[:1].expand(len(response), -1), response, reduction",
        "tests/results/score/test_prompts.py",
    ),
    Defect(
        "the server forgets how long a text has waited",
        "if oldest_wait + seconds[ratio] <= target:",
        "if seconds[ratio] <= target:",
        "tests/serve/test_scheduler.py",
    ),
    Defect(
        "the server waits for a batch that hangs",
        "late = not pipe.poll(seconds)",
        "late = not pipe.poll(None)",
        "tests/serve/test_model_process.py -k hangs",
    ),
    # text in, answers out
    Defect(
        "a text that was cut is not marked",
        'return {**answer, "truncated": True} if self.truncated else answer',
        "return answer",
        "tests/predict/test_imported.py",
    ),
    Defect(
        "the first sentence of a pair is cut first",
        "return [room - shorter, shorter] if first > second else [shorter, room - shorter]",
        "return [shorter, room - shorter]",
        "tests/predict/test_shortening.py",
    ),
    Defect(
        "no separator in front of a pair's second sentence",
        "parts += [] if start is None else [some.new_tensor([start])]",
        "parts += [] if start is None or parts else [some.new_tensor([start])]",
        "tests/predict/test_shortening.py",
    ),
    # SelfCP
    Defect(
        "memory tokens in the wrong order",
        "states[b, lengths[i] - numbers[i] : lengths[i]] for",
        "states[b, lengths[i] - numbers[i] : lengths[i]].flip(0) for",
        "tests/selfcp/test_model.py",
    ),
    Defect(
        "number of memory tokens rounded down",
        "return math.ceil(length / ratio * (1 - ROUNDING))",
        "return max(1, math.floor(length / ratio))",
        "tests/selfcp/test_segments.py",
    ),
    Defect(
        "the bank of another model accepted",
        'if theirs != ours:\n            raise UserError(\n                f"{folder}: built with',
        'if False:\n            raise UserError(\n                f"{folder}: built with',
        "tests/selfcp/bank/test_demonstrations.py tests/cli/test_bank.py",
    ),
    Defect(
        "the most similar demonstration first",
        "for hit in reversed(hits)]",
        "for hit in hits]",
        "tests/selfcp/bank/test_demonstrations.py",
    ),
    Defect(
        "every epoch draws the same ratios",
        "numpy_seed(seed, epoch, number)",
        "numpy_seed(seed, 1, number)",
        "tests/selfcp/test_task.py",
    ),
    Defect(
        "demonstrations before the query",
        "[query, *memories, *some]",
        "[query[:1], *memories, query[1:], *some]",
        "tests/selfcp/bank/test_demonstrations.py",
    ),
    Defect(
        "the control reads the prompt's own segments",
        "            sources = [other[:n] for other",
        "            _ = [other[:n] for other",
        "tests/selfcp/test_model.py",
    ),
    # decoding and export
    Defect(
        "scores divided by a length without </s>",
        "score = score / length**self.len_penalty",
        "score = score / max(1, length - 1) ** self.len_penalty",
        "tests/decoding/test_generator.py",
    ),
    Defect(
        "the cache does not follow the beams",
        "self.bias = bias.gather(2, index)",
        "self.bias = bias",
        "tests/decoding/test_generator.py",
    ),
    Defect(
        "queries and keys exchanged in the export",
        "weights |= dict(model.named_buffers())",
        "weights |= dict(model.named_buffers())\n"
        '    other = {"q_proj": "k_proj", "k_proj": "q_proj"}\n'
        "    weights = {\n"
        '        ".".join(other.get(word, word) for word in name.split(".")): tensor\n'
        "        for name, tensor in weights.items()\n"
        "    }",
        "tests/decoding/test_plain.py",
    ),
    # pretrained models
    Defect(
        "rows of queries and keys left in GGUF's order",
        "return numbers if heads is None else halves_together(numbers, heads)",
        "return numbers",
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "a factor for each frequency multiplied",
        'return frequencies / torch.tensor(scaling["factors"])',
        'return frequencies * torch.tensor(scaling["factors"])',
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "digits of Qwen2 in groups of three",
        'DIGITS = {"llama-bpe": "{1,3}", "qwen2": ""}',
        'DIGITS = {"llama-bpe": "{1,3}", "qwen2": "{1,3}"}',
        "tests/huggingface/test_transformers_files.py",
    ),
    Defect(
        "the last merges of SentencePiece first",
        "sorted(merges, key=lambda merge: merge[0])",
        "sorted(merges, key=lambda merge: -merge[0])",
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "words that a model does not have take probability",
        "bias = [ABSENT if row < 0 else 0.0 for row in order]",
        "bias = [0.0 for _ in order]",
        "tests/huggingface/test_llama.py",
    ),
    Defect(
        "the second sentence has the first one's type",
        "return (before.gt(0) & pair).long()",
        "return (before.gt(1) & pair).long()",
        "tests/huggingface/test_bert.py",
    ),
    Defect(
        "two separators in BERT's pairs",
        "classifier_task(source, outputs, separators=1,",
        "classifier_task(source, outputs, separators=2,",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "a head of any number of classes",
        "if len(names) != outputs:",
        "if len(names) > outputs:",
        "tests/huggingface/test_source.py",
    ),
    Defect(
        "cosines before sines in Marian's positions",
        "torch.cat([angles.sin(), angles.cos()], dim=1)",
        "torch.cat([angles.cos(), angles.sin()], dim=1)",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "Marian's output without its bias",
        "target.take(weights[BIAS].flatten()) + target.bias",
        "target.bias",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "the target's words read from the source's matrix",
        'yield "decoder.embed_tokens.weight", target.take(words_of(weights, "decoder"))',
        'yield "decoder.embed_tokens.weight", target.take(words_of(weights, "encoder"))',
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "a window no limit for the text",
        'return min(positions, config.size("sliding_window")) if slides else positions',
        "return positions",
        "tests/huggingface/test_transformers_files.py",
    ),
    Defect(
        "code in a pickle run",
        'map_location="cpu", weights_only=True, mmap=mapped or None',
        'map_location="cpu", weights_only=False, mmap=mapped or None',
        "tests/huggingface/test_source.py",
    ),
    # reports
    Defect(
        "the first seed's BLEU in place of the mean",
        "return statistics.fmean(self.values)",
        "return self.values[0]",
        "tests/results/report/test_seeds.py",
    ),
    Defect(
        "BLEU on tokenised text",
        r""""D": re.compile(r"^D-""",
        r""""D": re.compile(r"^H-""",
        "tests/results/report/test_report.py",
    ),
)

"""The defects that `python tests/defects.py` puts into the package, and who should notice."""

from typing import NamedTuple


class Defect(NamedTuple):
    """A function that is wrong: `text` stands in it, `wrong` instead; `tests` should notice.

    Args:
        place: the file and, behind a colon, the function or class in it; no colon: the whole file.
        text: stands once in the place, in the form in which `ast.unparse` writes Python, so that
            neither the formatter nor a change elsewhere touches it.
    """

    name: str
    place: str
    text: str
    wrong: str
    tests: str


DEFECTS = (
    # PET: pairs, heads, attention
    Defect(
        "layers paired from the outside in",
        "pet_fairseq/pet/pairs.py:expand_preset",
        "numbers = [(i, i + half) for i in range(1, half + 1)]",
        "numbers = [(i, num_layers + 1 - i) for i in range(1, half + 1)]",
        "tests/pet/test_pairs.py",
    ),
    Defect(
        "queries and keys of a pair not crossed",
        "pet_fairseq/pet/pairs.py:expand_preset",
        "pairs += [f'Q{i}=K{j} K{i}=Q{j}' for i, j in numbers]",
        "pairs += [f'Q{i}=Q{j} K{i}=K{j}' for i, j in numbers]",
        "tests/pet/test_pairs.py",
    ),
    Defect(
        "padding mask flipped",
        "pet_fairseq/nn/attention.py:attention_bias",
        "masked_fill(mask, torch.finfo(dtype).min / 2)",
        "masked_fill(~mask, torch.finfo(dtype).min / 2)",
        "tests/nn/test_attention.py",
    ),
    Defect(
        "no dropout where attention is computed in steps",
        "pet_fairseq/nn/attention.py:weighted_sum",
        "return F.dropout(weights.type_as(v), dropout) @ v",
        "return weights.type_as(v) @ v",
        "tests/nn/test_attention.py",
    ),
    Defect(
        "one incremental cache for all layers",
        "pet_fairseq/nn/attention.py:MultiheadAttention.__init__",
        "if head_dim is None and embed_dim % num_heads != 0:",
        "self._incremental_state_id = 'all'\n    if head_dim is None and embed_dim % num_heads "
        "!= 0:",
        "tests/nn/test_attention.py tests/pet/test_transformer.py",
    ),
    Defect(
        "the worst heads kept",
        "pet_fairseq/pet/head_sampling.py:best_heads",
        "order = scores.argsort(dim=1, descending=True, stable=True)",
        "order = scores.argsort(dim=1, stable=True)",
        "tests/pet/test_head_sampling.py",
    ),
    Defect(
        "classes of the simplified task exchanged",
        "pet_fairseq/pet/simplified_loss.py:teacher_classes",
        "return 2 * (~right).long() + (~confident).long()",
        "return (~right).long() + 2 * (~confident).long()",
        "tests/pet/test_simplified_task.py",
    ),
    # distillation
    Defect(
        "padding counted in the loss",
        "pet_fairseq/distillation/positions.py:real_positions",
        "real = tokens.ne(padding_idx)",
        "real = tokens.ne(-1)",
        "tests/distillation/test_criterion.py",
    ),
    Defect(
        "T^2 dropped",
        "pet_fairseq/distillation/loss.py:distillation_sums",
        "temperature ** 2 * ",
        "",
        "tests/distillation/test_loss.py",
    ),
    Defect(
        "KL the other way round",
        "pet_fairseq/distillation/loss.py:distillation_sums",
        "F.kl_div(softened, teacher_log_probs, ",
        "F.kl_div(teacher_log_probs, softened, ",
        "tests/distillation/test_loss.py",
    ),
    Defect(
        "softmax over the tokens",
        "pet_fairseq/distillation/loss.py:ensemble_log_probs",
        "return F.log_softmax(logits[0].float() / temperature, dim=-1)",
        "return F.log_softmax(logits[0].float() / temperature, dim=0)",
        "tests/distillation",
    ),
    Defect(
        "the teacher keeps its dropout",
        "pet_fairseq/checkpoints/frozen_models.py:FrozenModels.__init__",
        "model.eval()",
        "model.train()",
        "tests/distillation",
    ),
    Defect(
        "the output layer of an LSTM counted as a layer",
        "pet_fairseq/nn/parameters.py",
        "OUTPUT_LAYERS = ('output_projection', 'adaptive_softmax', 'fc_out', 'fc3')",
        "OUTPUT_LAYERS = ('output_projection', 'adaptive_softmax', 'fc3')",
        "tests/nn/test_parameters.py",
    ),
    Defect(
        "features of a mixed ensemble in the wrong precision",
        "pet_fairseq/distillation/teacher.py:Teacher.ask",
        "features = [output.features[at] for output in outputs]",
        "features = torch.cat([output.features[at] for output in outputs], "
        "dim=-1).split([output.features.size(-1) for output in outputs], dim=-1)",
        "tests/distillation/test_kinds.py",
    ),
    Defect(
        "a decoder is not told to stop before its output layer",
        "pet_fairseq/nn/hooks.py:given_arguments.give",
        "return (inputs, {**named, **arguments})",
        "return (inputs, named)",
        "tests/distillation/test_kinds.py",
    ),
    # quantisation
    Defect(
        "what rounding takes away is lost",
        "pet_fairseq/quantisation/optimizer.py:QuantisedAdam.step",
        "master.copy_(parameter)",
        "master.copy_(storable(parameter, self.cfg.quantised_bits))",
        "tests/quantisation/test_optimizer.py",
    ),
    Defect(
        "one scale for all rows",
        "pet_fairseq/quantisation/grid.py:encode",
        "matrix.abs().amax(dim=1, keepdim=True)",
        "matrix.abs().amax().expand(len(matrix), 1)",
        "tests/quantisation/test_grid.py",
    ),
    # checkpoints
    Defect(
        "unsafe loading allowed",
        "pet_fairseq/checkpoints/safe_loading.py:allow_fairseq_types",
        "torch.serialization.add_safe_globals(FAIRSEQ_TYPES)",
        "os.environ['TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'] = '1'",
        "tests/cli/test_safety.py",
    ),
    Defect(
        "a training with --eval-bleu cannot be continued",
        "pet_fairseq/checkpoints/safe_loading.py",
        "*NUMPY_TYPES, ",
        "",
        "tests/checkpoints/test_numbers.py tests/cli/test_checkpoints.py",
    ),
    Defect(
        "arrays of objects taken for numbers",
        "pet_fairseq/checkpoints/numbers.py:NumberDtype.__init__",
        "if code not in NUMBERS:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "a file believed on the size of a number",
        "pet_fairseq/checkpoints/numbers.py:NumberDtype.__setstate__",
        "if others != [None, None, None, -1, -1, 0]:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "the memory of an array freed while others see it",
        "pet_fairseq/checkpoints/numbers.py:NumberArray.__setstate__",
        "if self.size:",
        "if False:",
        "tests/checkpoints/test_numbers.py",
    ),
    Defect(
        "a file without options of a task called whole",
        "pet_fairseq/checkpoints/safe_loading.py:what_is_missing_in_options",
        "missing = [part for part in ('model', 'task') if cfg.get(part) is None]",
        "missing = [part for part in ('model',) if cfg.get(part) is None]",
        "tests/checkpoints/test_safe_loading.py",
    ),
    Defect(
        "meters of fairseq 0.9 refused",
        "pet_fairseq/checkpoints/safe_loading.py",
        "fairseq.meters.",
        "fairseq.logging.meters.",
        "tests/checkpoints/test_safe_loading.py",
    ),
    Defect(
        "shared tensors stored twice",
        "pet_fairseq/checkpoints/tied_tensors.py:drop_tied_entries",
        "state_dict.pop(prefix + name, None)",
        "pass",
        "tests/checkpoints/test_tied_tensors.py tests/pet/test_transformer.py",
    ),
    Defect(
        "repair takes the oldest checkpoint",
        "pet_fairseq/checkpoints/repair.py:_newest_first",
        "return sorted(paths, key=key, reverse=True)",
        "return sorted(paths, key=key)",
        "tests/checkpoints/test_repair.py",
    ),
    # recipes
    Defect(
        "text prepared with other settings used again",
        "scripts/common.sh",
        '[ ! -f "$noted" ] || [ "$(cat "$noted")" = "$2" ] ||',
        "true ||",
        "tests/cli/test_prepare_steps.py",
    ),
    Defect(
        "a product of another command used again",
        "pet_fairseq/runner/record.py:differences",
        "if new.get(name) != old.get(name)",
        "if False",
        "tests/runner/test_runner.py",
    ),
    Defect(
        "a product of other inputs used again",
        "pet_fairseq/runner/record.py:differences",
        "if now.inputs.get(path) != before.inputs.get(path) and path in now.inputs:",
        "if False:",
        "tests/runner/test_runner.py",
    ),
    # baselines
    Defect(
        "CAN's decoder sees what comes",
        "pet_fairseq/baselines/compressed_attention.py:joint_weights",
        "attention_scores(q, target, attn_mask)",
        "attention_scores(q, target)",
        "tests/baselines/test_can.py",
    ),
    Defect(
        "patience: every layer follows the next one's",
        "pet_fairseq/baselines/patience.py:last_layers",
        "return list(range(first, teacher_layers))",
        "return list(range(first + 1, teacher_layers + 1))",
        "tests/baselines/test_patience.py",
    ),
    Defect(
        "token pruning keeps padding like words",
        "pet_fairseq/variator/competitors/token_pruning.py:received_attention",
        "return scores.masked_fill(padding_mask, -math.inf)",
        "return scores",
        "tests/variator/competitors/test_token_pruning.py",
    ),
    # Variator
    Defect(
        "what fills up the last group counts as words",
        "pet_fairseq/variator/plugin.py:group_padding",
        "F.pad(padding_mask.T, (0, 0, 0, missing), value=True)",
        "F.pad(padding_mask.T, (0, 0, 0, missing), value=False)",
        "tests/variator/test_plugin.py",
    ),
    Defect(
        "decompression with its inputs exchanged",
        "pet_fairseq/variator/plugin.py:Plugin.decompress",
        "down_group, down_member = self.down.weight.chunk(2, dim=1)",
        "down_member, down_group = self.down.weight.chunk(2, dim=1)",
        "tests/variator/test_plugin.py",
    ),
    Defect(
        "the decoder's distance taken before its last norm",
        "pet_fairseq/variator/criterion.py:stack_outputs.keep_decoder",
        "vectors = norm(vectors)",
        "vectors = vectors + 0 * norm(vectors)",
        "tests/variator/test_criterion.py",
    ),
    Defect(
        "plugins of other ratios trained",
        "pet_fairseq/variator/model.py:VariatorModel.add_plugins",
        "plugin.requires_grad_(ratio == self.cfg.compression_ratio)",
        "plugin.requires_grad_(True)",
        "tests/variator/test_model.py",
    ),
    Defect(
        "half a group counted as none",
        "pet_fairseq/variator/costs.py:Shape.num_groups",
        "return -(-length // self.ratio)",
        "return length // self.ratio",
        "tests/variator/test_flops.py",
    ),
    Defect(
        "a group of a prompt hidden from its first member",
        "pet_fairseq/variator/site_modules.py:hidden_keys",
        "return join(keys) > join(queries)[:, None]",
        "return join(keys) >= join(queries)[:, None]",
        "tests/variator/test_decoder_only.py",
    ),
    Defect(
        "positions of a prompt seen beside their group",
        "pet_fairseq/variator/site_modules.py:CompressedSelfAttention.empty_vectors",
        "torch.cat([empty, ~mask[:, first:], behind], dim=1)",
        "torch.cat([empty, mask[:, first:] & False, behind], dim=1)",
        "tests/variator/test_decoder_only.py",
    ),
    Defect(
        "cached groups at the wrong distance",
        "pet_fairseq/huggingface/llama_attention.py:GroupedQueryAttention.keys_and_values",
        "return {'prev_key': self.rotary.move(k, steps) if steps else k, 'prev_value': v}",
        "return {'prev_key': k, 'prev_value': v}",
        "tests/variator/test_decoder_only.py -k generation",
    ),
    Defect(
        "translations in the order of the batches",
        "pet_fairseq/predict/translate.py:FairseqTranslator.translate",
        "translations[i] = found",
        "translations[translations.index([])] = found",
        "tests/cli/test_translate.py -k generate",
    ),
    Defect(
        "no position left for the end of a long line",
        "pet_fairseq/predict/translate.py:FairseqTranslator.__init__",
        "self.room = int(min(translator.max_tokens, sys.maxsize)) - 1",
        "self.room = int(min(translator.max_tokens, sys.maxsize))",
        "tests/cli/test_translate.py -k long_lines",
    ),
    Defect(
        "lines kept until others come",
        "pet_fairseq/predict/lines.py:whole_lines",
        "if lines and (full or not select([raw], [], [], PATIENCE)[0]):",
        "if lines and full:",
        "tests/predict/test_lines.py",
    ),
    Defect(
        "the value of an old spelling left where it was",
        "pet_fairseq/cli_command.py:OneLineParser._respelt",
        "positional = values or list(islice(rest, 1))",
        "positional = values",
        "tests/cli/test_commands.py -k old_spelling",
    ),
    Defect(
        "one scale for all rows of a weight of --precision int8",
        "pet_fairseq/predict/int8.py:Int8Linear.__init__",
        "scales = weight.abs().amax(dim=1).div(LARGEST)",
        "scales = weight.abs().max().expand(len(weight)).div(LARGEST)",
        "tests/predict/test_int8.py",
    ),
    Defect(
        "the oldest text left behind by shorter ones",
        "pet_fairseq/predict/batches.py:batch_around_first",
        "key=lambda i: abs(lengths[i] - lengths[0])",
        "key=lambda i: lengths[i]",
        "tests/serve/test_queue.py",
    ),
    Defect(
        "the last layers of a student in the place of the first",
        "pet_fairseq/variator/competitors/first_layers.py:FirstLayersModel.cheapen",
        "del stack.layers[kept:]",
        "del stack.layers[:-kept]",
        "tests/variator/competitors/test_first_layers.py",
    ),
    Defect(
        "sentences drawn apart for the two models of a bootstrap",
        "pet_fairseq/statistics.py:paired_bootstrap",
        "(differences, len(differences",
        "(ours, len(ours)).mean() - draw.choice(theirs, len(theirs",
        "tests/test_statistics.py",
    ),
    Defect(
        "neurons with another one's row",
        "pet_fairseq/variator/feed_forward.py:neuron_rows",
        "return torch.cat([neurons + start for start in starts])",
        "return torch.cat([neurons + start for start in starts]).flip(0)",
        "tests/variator/competitors/test_narrow_ffn.py",
    ),
    Defect(
        "a gate that costs nothing",
        "pet_fairseq/variator/model.py:layer_widths",
        "widths |= {'ffn_embed_dim': inner_width(layer), 'ffn_maps': 1 + maps_into(layer)}",
        "widths |= {'ffn_embed_dim': inner_width(layer), 'ffn_maps': 2}",
        "tests/variator/test_imported.py -k costs",
    ),
    Defect(
        "the first word's probabilities for all words of a response",
        "pet_fairseq/results/score/prompts.py:read_response",
        "logits, response, reduction",
        "logits[:1].expand(len(response), -1), response, reduction",
        "tests/results/score/test_prompts.py",
    ),
    Defect(
        "the server forgets how long a text has waited",
        "pet_fairseq/serve/scheduler.py:choose_ratio",
        "if oldest_wait + seconds[ratio] <= target:",
        "if seconds[ratio] <= target:",
        "tests/serve/test_scheduler.py",
    ),
    Defect(
        "the server waits for a batch that hangs",
        "pet_fairseq/serve/model_process.py:Worker.call",
        "late = not pipe.poll(seconds)",
        "late = not pipe.poll(None)",
        "tests/serve/test_model_process.py -k hangs",
    ),
    Defect(
        "the other texts of a refused request run",
        "pet_fairseq/serve/engine.py:refuse",
        "for answer in item.request:",
        "for answer in [item.answer]:",
        "tests/serve/test_app.py -k refused_request",
    ),
    # text in, answers out
    Defect(
        "a text that was cut is not marked",
        "pet_fairseq/predict/predictor.py:Encoded.mark",
        "return {**answer, 'truncated': True} if self.truncated else answer",
        "return answer",
        "tests/predict/test_imported.py",
    ),
    Defect(
        "the first sentence of a pair is cut first",
        "pet_fairseq/predict/predictor.py:cut_longest",
        "return [room - shorter, shorter] if first > second else [shorter, room - shorter]",
        "return [shorter, room - shorter]",
        "tests/predict/test_shortening.py",
    ),
    Defect(
        "no separator in front of a pair's second sentence",
        "pet_fairseq/predict/classifier.py:Classifier.join",
        "parts += [] if start is None else [some.new_tensor([start])]",
        "parts += [] if start is None or parts else [some.new_tensor([start])]",
        "tests/predict/test_shortening.py",
    ),
    # SelfCP
    Defect(
        "memory tokens in the wrong order",
        "pet_fairseq/selfcp/compressor.py:Compressor.compress",
        "at_tags = [states[b, lengths[i] - numbers[i]:lengths[i]] for b, i in enumerate(batch)]",
        "at_tags = [states[b, lengths[i] - numbers[i]:lengths[i]].flip(0) for b, i in "
        "enumerate(batch)]",
        "tests/selfcp/test_model.py",
    ),
    Defect(
        "number of memory tokens rounded down",
        "pet_fairseq/selfcp/segments.py:memory_length",
        "return math.ceil(length / ratio * (1 - ROUNDING))",
        "return max(1, math.floor(length / ratio))",
        "tests/selfcp/test_segments.py",
    ),
    Defect(
        "the bank of another model accepted",
        "pet_fairseq/selfcp/bank/demonstrations.py:check_made_with",
        "if theirs != ours:",
        "if False:",
        "tests/selfcp/bank/test_demonstrations.py tests/cli/test_bank.py",
    ),
    Defect(
        "the most similar demonstration first",
        "pet_fairseq/selfcp/bank/demonstrations.py:recall_memory",
        "for hit in reversed(hits)]",
        "for hit in hits]",
        "tests/selfcp/bank/test_demonstrations.py",
    ),
    Defect(
        "every epoch draws the same ratios",
        "pet_fairseq/selfcp/task.py:draw",
        "numpy_seed(seed, epoch, number)",
        "numpy_seed(seed, 1, number)",
        "tests/selfcp/test_task.py",
    ),
    Defect(
        "demonstrations before the query",
        "pet_fairseq/selfcp/reader.py:PromptReader.read",
        "[query, *memories, *some]",
        "[query[:1], *memories, query[1:], *some]",
        "tests/selfcp/bank/test_demonstrations.py",
    ),
    Defect(
        "the control reads the prompt's own segments",
        "pet_fairseq/selfcp/reader.py:PromptReader.read",
        "sources = [other[:n] for other, n in zip(others, other_lengths.tolist())]",
        "_ = [other[:n] for other, n in zip(others, other_lengths.tolist())]",
        "tests/selfcp/test_model.py",
    ),
    # decoding and export
    Defect(
        "scores divided by a length without </s>",
        "pet_fairseq/decoding/hypotheses.py:Hypotheses.add",
        "score = score / length ** self.len_penalty",
        "score = score / max(1, length - 1) ** self.len_penalty",
        "tests/decoding/test_generator.py",
    ),
    Defect(
        "the cache does not follow the beams",
        "pet_fairseq/decoding/cache.py:Visibility.follow",
        "self.bias = bias.gather(2, index)",
        "self.bias = bias",
        "tests/decoding/test_generator.py",
    ),
    Defect(
        "queries and keys exchanged in the export",
        "pet_fairseq/decoding/plain.py:weights_in_use",
        "for path, module in model.named_modules():",
        "other = {'q_proj': 'k_proj', 'k_proj': 'q_proj'}\n    weights = "
        "{'.'.join((other.get(word, word) for word in name.split('.'))): tensor for name, "
        "tensor in weights.items()}\n    for path, module in model.named_modules():",
        "tests/decoding/test_plain.py",
    ),
    # pretrained models
    Defect(
        "rows of queries and keys left in GGUF's order",
        "pet_fairseq/huggingface/gguf_file.py:decode",
        "return numbers if heads is None else halves_together(numbers, heads)",
        "return numbers",
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "a factor for each frequency multiplied",
        "pet_fairseq/huggingface/rotary.py:angular_frequencies",
        "return frequencies / torch.tensor(scaling['factors']).view_as(frequencies)",
        "return frequencies * torch.tensor(scaling['factors']).view_as(frequencies)",
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "digits of Qwen2 in groups of three",
        "pet_fairseq/huggingface/gguf_tokenizer.py",
        "DIGITS = {'llama-bpe': '{1,3}', 'qwen2': ''}",
        "DIGITS = {'llama-bpe': '{1,3}', 'qwen2': '{1,3}'}",
        "tests/huggingface/test_transformers_files.py",
    ),
    Defect(
        "the last merges of SentencePiece first",
        "pet_fairseq/huggingface/gguf_tokenizer.py:merges_by_score",
        "sorted(merges, key=lambda merge: merge[0])",
        "sorted(merges, key=lambda merge: -merge[0])",
        "tests/huggingface/test_gguf.py",
    ),
    Defect(
        "words that a model does not have take probability",
        "pet_fairseq/huggingface/vocabulary.py:_bias",
        "bias = [ABSENT if row < 0 else 0.0 for row in order]",
        "bias = [0.0 for _ in order]",
        "tests/huggingface/test_llama.py",
    ),
    Defect(
        "the second sentence has the first one's type",
        "pet_fairseq/huggingface/bert_model.py:token_types",
        "return (before.gt(0) & pair).long()",
        "return (before.gt(1) & pair).long()",
        "tests/huggingface/test_bert.py",
    ),
    Defect(
        "two separators in BERT's pairs",
        "pet_fairseq/huggingface/bert.py:read_bert",
        "classes, separators=1)",
        "classes, separators=2)",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "a head of any number of classes",
        "pet_fairseq/huggingface/classes.py:labels",
        "if len(names) != outputs:",
        "if len(names) > outputs:",
        "tests/huggingface/test_source.py",
    ),
    Defect(
        "cosines before sines in Marian's positions",
        "pet_fairseq/huggingface/marian.py:sinusoids",
        "torch.cat([angles.sin(), angles.cos()], dim=1)",
        "torch.cat([angles.cos(), angles.sin()], dim=1)",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "Marian's output without its bias",
        "pet_fairseq/huggingface/marian.py:marian_tensors",
        "target.take(weights[BIAS].flatten()) + target.bias",
        "target.bias",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "the target's words read from the source's matrix",
        "pet_fairseq/huggingface/marian.py:marian_tensors",
        "yield ('decoder.embed_tokens.weight', target.take(words_of(weights, 'decoder')))",
        "yield ('decoder.embed_tokens.weight', target.take(words_of(weights, 'encoder')))",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "DistilBERT's head with BERT's activation",
        "pet_fairseq/huggingface/distilbert.py",
        "--pooler-activation-fn relu",
        "--pooler-activation-fn tanh",
        "tests/huggingface/test_transformers.py",
    ),
    Defect(
        "queries normalised after they are rotated",
        "pet_fairseq/huggingface/llama_attention.py:GroupedQueryAttention.forward",
        "q = self.q_norm(self._split_heads(self.q_proj(query)))\n"
        "    q = self.rotary.rotate(q, *of_queries)",
        "q = self._split_heads(self.q_proj(query))\n"
        "    q = self.q_norm(self.rotary.rotate(q, *of_queries))",
        "tests/huggingface/test_transformers.py -k qwen3",
    ),
    Defect(
        "a window in a layer too many",
        "pet_fairseq/huggingface/llama.py:has_window",
        "config.size('max_window_layers', least=0) < config.size('num_hidden_layers')",
        "config.size('max_window_layers', least=0) <= config.size('num_hidden_layers')",
        "tests/huggingface/test_transformers_files.py",
    ),
    Defect(
        "a window no limit for the text",
        "pet_fairseq/huggingface/llama.py:max_positions",
        "return min(positions, config.size('sliding_window')) if slides else positions",
        "return positions",
        "tests/huggingface/test_transformers_files.py",
    ),
    Defect(
        "code in a pickle run",
        "pet_fairseq/huggingface/source.py:load_safely",
        "return torch.load(str(path), map_location='cpu', weights_only=True, mmap=mapped or None)",
        "return torch.load(str(path), map_location='cpu', weights_only=False, mmap=mapped or None)",
        "tests/huggingface/test_source.py",
    ),
    # reports
    Defect(
        "the first seed's BLEU in place of the mean",
        "pet_fairseq/statistics.py:Sample.mean",
        "return statistics.fmean(self.values)",
        "return self.values[0]",
        "tests/results/report/test_seeds.py",
    ),
    Defect(
        "BLEU on tokenised text",
        "pet_fairseq/results/fairseq_output.py",
        "^D",
        "^H",
        "tests/results/report/test_report.py",
    ),
)

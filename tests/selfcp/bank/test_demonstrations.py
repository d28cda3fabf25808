"""Demonstrations of a bank, against compressing and laying out each alone, layer by layer."""

import random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.sequence_generator import SequenceGenerator

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.bank import demonstrations
from pet_fairseq.selfcp.bank.bank import Bank
from pet_fairseq.selfcp.prompts import Record
from pet_fairseq.selfcp.segments import memory_length, split_prompt
from pet_fairseq.selfcp.task import SelfCpTask, SelfCpTaskConfig
from tests.selfcp.test_model import KINDS, make_selfcp, prefix_slowly, read_slowly, tags_slowly
from tests.selfcp.test_model import task as language_modeling  # noqa: F401  fixture

RATIO = 3.0
ROOM = 47  # 1 + 47 + 16 = 64 positions


def make_records(number, seed, longest=30):
    """Random tokens of query, prompt and response."""
    draw = random.Random(seed)
    lengths = ((0, 4), (0, longest), (1, 6))
    return [
        [[draw.randrange(4, 18) for _ in range(draw.randint(*some))] for some in lengths]
        for _ in range(number)
    ]


def whole(record):
    query, prompt, response = record
    return query + prompt + response


def halves(record):
    """What is before the response, and the response."""
    query, prompt, response = record
    return query + prompt, response


def write_split(folder, split, records):
    """What pet-fairseq prompts writes, without dict.txt."""
    for part, rows in zip(Record._fields, zip(*records)):
        builder = MMapIndexedDatasetBuilder(str(folder / f"{split}.{part}.bin"), dtype=np.int32)
        for row in rows:
            builder.add_item(torch.tensor(row, dtype=torch.int32))
        builder.finalize(str(folder / f"{split}.{part}.idx"))


@pytest.fixture
def data(tmp_path):
    """Train: 24 records, two of them too long; test: 6, of which the last two are in train."""
    records = {"train": make_records(22, 0), "test": make_records(4, 1)}
    records["train"][5][1] = [8] * 70
    records["train"] += [[[4, 5], [6] * 60, [7]], [[], [4], [5]]]
    records["test"] += [[*records["train"][9][:2], [8]], records["train"][-1]]
    for split, rows in records.items():
        write_split(tmp_path, split, rows)
    return records


@pytest.fixture
def make(language_modeling, tmp_path):  # noqa: F811
    """Makes a model by its kind and options."""
    return lambda *kind, **options: make_selfcp(language_modeling, tmp_path, *kind, **options)


def load(folder, subset):
    task = SelfCpTask.setup_task(SelfCpTaskConfig(data=str(folder), seed=1, memory_ratio_range=""))
    task.load_dataset(subset)
    return task.dataset(subset)


def build(model, folder, subset="train", block=7, out="bank", say=lambda line: None):
    """As the command `bank build` does."""
    reader, records = model.encoder, load(folder, subset)
    source = demonstrations.describe(reader, records, str(folder), subset, RATIO)
    demonstrations.start(folder / out, reader, source, RATIO)
    demonstrations.fill(folder / out, reader, records, source, block, say)
    return folder / out


def with_bank(model, folder, shots, **options):
    vars(model.cfg).update(bank=str(folder), shots=shots, **options)
    return model.eval()


# --- the reference --------------------------------------------------------------------------------


def cut(text, response):
    """What fits of a text and the response behind it: the text loses its end."""
    return [*text[: ROOM - len(response)], *response]


def memory_slowly(model, text, response=()):
    """Of one text alone."""
    decoder = model.decoder.inner
    kept = cut(text, response)
    m = max(1, memory_length(len(kept), RATIO))
    vectors = [decoder.embed_scale * decoder.embed_tokens.weight[t] for t in [2, *kept]]
    with torch.no_grad():
        states = read_slowly(decoder, [*vectors, *tags_slowly(model, m)])
        return model.encoder.connector(states[-m:])


def find_slowly(model, train, query, prompt, shots):
    """Numbers of the demonstrations, best first."""
    key = memory_slowly(model, query + prompt)[0]
    found = []
    for i, record in enumerate(train):
        first = memory_slowly(model, *halves(record))[0]
        if record[0] + record[1] != query + prompt:
            found.append((-torch.cosine_similarity(key, first, dim=0).item(), i))
    return [i for _, i in sorted(found)[:shots]]


def logits_slowly(model, train, record, shots):
    """Logits for the response's tokens and </s>."""
    query, prompt, response = record
    vectors, embedded = prefix_slowly(model, [2, *query], prompt, RATIO)
    shown = find_slowly(model, train, query, prompt, shots)
    memory = [row for i in reversed(shown) for row in memory_slowly(model, *halves(train[i]))]
    start = 1 + len(query)  # SelfCP, section 3.1: the query, then memory
    read = [*vectors[:start], *memory, *vectors[start:]]
    states = read_slowly(model.decoder.inner, read + embedded(response))
    return model.decoder.inner.output_layer(states[len(read) - 1 :])


# --- into the bank --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [1, 100, 10_000])
def test_memory_is_that_of_each_alone(kind, most, data, make, tmp_path):
    model = make(kind, max_compressor_tokens=most)
    bank = Bank(build(model, tmp_path))
    assert len(bank) == len(data["train"])
    for i, record in enumerate(data["train"]):
        expected = memory_slowly(model, *halves(record)).float()
        torch.testing.assert_close(torch.tensor(bank.memory(i)), expected, rtol=1e-5, atol=1e-6)


def test_memory_of_several_tags(data, make, tmp_path):
    model = make(memory_tags=40, connector="none")
    with torch.no_grad():
        model.encoder.memory_tag += torch.randn_like(model.encoder.memory_tag)
    bank = Bank(build(model, tmp_path))
    for i, record in enumerate(data["train"]):
        expected = memory_slowly(model, *halves(record)).float()
        torch.testing.assert_close(torch.tensor(bank.memory(i)), expected, rtol=1e-5, atol=1e-6)


def test_long_ones_are_cut_and_counted(data, make, tmp_path):
    model = make()
    manifest = Bank(build(model, tmp_path)).manifest
    lengths = [len(whole(record)) for record in data["train"]]
    assert manifest.sources[0].cut == sum(length > ROOM for length in lengths) >= 2
    assert manifest.memory_tokens == sum(memory_length(min(n, ROOM), RATIO) for n in lengths)


@pytest.mark.parametrize("ratio", [1, 2.5, 12])
@pytest.mark.parametrize("positions", [3, 10, 64, 1024])
def test_longest_text(positions, ratio):
    found = demonstrations.longest_text(positions, ratio)
    fits = [n for n in range(1, positions) if 1 + n + memory_length(n, ratio) <= positions]
    assert found == max(fits)


def test_each_is_compressed_once(data, make, tmp_path, monkeypatch):
    """Also if building is interrupted, and not again for generation."""
    model = make(prompt_strategy="concat").float()
    seen, compress = [], model.encoder.compress

    def count(rows, numbers):
        seen.extend(
            tuple(p for part in row if part.dim() == 1 for p in part.tolist()) for row in rows
        )
        return compress(rows, numbers)

    monkeypatch.setattr(model.encoder, "compress", count)

    def stop(line):
        if line.startswith("14 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(model, tmp_path, say=stop)
    assert len(seen) == 14
    folder = build(model, tmp_path)
    texts = {(2, *cut(*halves(record))) for record in data["train"]}
    assert len(seen) == 24 and set(seen) == texts
    build(model, tmp_path)
    assert len(seen) == 24
    seen.clear()
    with_bank(model, folder, 3)
    records = load(tmp_path, "test")
    sample = records.collater([records[i] for i in range(6)])
    generator = SequenceGenerator([model], model.encoder.dictionary, beam_size=3, max_len_b=5)
    generator.generate([model], sample)
    expected = [(2, *query, *prompt) for query, prompt, _ in data["test"]]
    for query, prompt, _ in data["test"]:
        pieces = [
            piece for piece in split_prompt(len(prompt), 7, "concat", RATIO) if piece.compressed
        ]
        expected += [(2, *query, *prompt[piece.start : piece.stop]) for piece in pieces]
    assert len(expected) > 6 and sorted(seen) == sorted(expected)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_interrupted_bank_is_the_same_in_the_end(
    stop,
    data,
    make,
    tmp_path,
):
    model = make().float()
    whole = build(model, tmp_path, out="whole")
    said = iter(range(stop))

    def interrupt(line):
        if next(said) == stop - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(model, tmp_path, say=interrupt)
    assert "unfinished" in Bank(tmp_path / "bank").manifest.unfinished
    folder = build(model, tmp_path)
    for path in whole.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()


# --- out of it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["former", "latter", "recursive", "truncate"])
@pytest.mark.parametrize("shots", [0, 1, 3])
def test_a_prompt_with_memory_equals_laying_it_out_by_hand(
    kind,
    strategy,
    shots,
    data,
    make,
    tmp_path,
):
    model = make(kind, prompt_strategy=strategy)
    with_bank(model, build(model, tmp_path), shots)
    records = load(tmp_path, "test")
    with torch.no_grad():
        sample = records.collater([records[i] for i in range(6)])
        found = model(**sample["net_input"])[0]
        for i, record in enumerate(data["test"]):
            expected = logits_slowly(model, data["train"], record, shots)
            torch.testing.assert_close(found[i, : len(expected)], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_generation_with_memory(beam, data, make, tmp_path):
    model = make()
    with_bank(model, build(model, tmp_path), 2)
    records = load(tmp_path, "test")
    sample = records.collater([records[i] for i in range(6)])
    generator = SequenceGenerator([model], model.encoder.dictionary, beam, max_len_b=5)
    for i, hypotheses in enumerate(generator.generate([model], sample)):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            record = [*data["test"][i][:2], tokens[:-1].tolist()]
            with torch.no_grad():
                scores = logits_slowly(model, data["train"], record, 2).log_softmax(dim=-1)
            expected = scores.gather(1, tokens[:, None])[:, 0]
            positional = hypothesis["positional_scores"].double()
            torch.testing.assert_close(positional, expected, rtol=0, atol=1e-5)


def test_demonstrations_stand_where_training_has_memory(data, make, tmp_path):
    """Behind the query, before what is kept of the prompt, as the former part does in training."""
    model = make(prompt_strategy="former")
    records = load(tmp_path, "test")
    number = next(i for i in range(6) if len(data["test"][i][1]) > 7 and data["test"][i][0])
    sample = prompts(records.collater([records[number]]))
    start = 1 + len(data["test"][number][0])
    in_training = model.encoder.read(**sample).is_vector[0].tolist()
    assert in_training.index(True) == start
    with_bank(model, build(model, tmp_path), 1)
    assert model.encoder.read(**sample).is_vector[0].tolist().index(True) == start


def test_a_model_that_gives_no_numbers_finds_nothing_in_silence_no_more(data, make, tmp_path):
    model = make().eval()
    bank = demonstrations.open_bank(build(model, tmp_path), model.encoder)
    with torch.no_grad():
        model.encoder.connector.bias[0] = torch.nan
    with pytest.raises(UserError, match="keys that are not finite"):
        demonstrations.find(bank, model.encoder, [torch.tensor([5, 6])], 2)


def test_a_record_does_not_find_itself(data, make, tmp_path):
    model = make().eval()
    bank = demonstrations.open_bank(build(model, tmp_path), model.encoder)
    records = load(tmp_path, "train")
    texts = [demonstrations.prompt_of(record) for record in records]
    for i, hits in enumerate(demonstrations.find(bank, model.encoder, texts, 30)):
        query, prompt, _ = data["train"][i]
        numbers = find_slowly(model, data["train"], query, prompt, 30)
        assert i not in numbers and [hit.number for hit in hits] == numbers


@pytest.mark.parametrize("length", [1, 8, 40])
def test_the_first_memory_token_does_not_depend_on_how_many_follow(
    length,
    make,
    tmp_path,
):
    reader = make().encoder
    row = [torch.randint(4, 18, (length,))]
    with torch.no_grad():
        one, many = (reader.compress([row], [m])[0] for m in (1, 9))
    torch.testing.assert_close(one[0], many[0])


def test_more_memory_than_positions(data, make, tmp_path):
    model = make()
    with_bank(model, build(model, tmp_path), 20)
    records = load(tmp_path, "test")
    with pytest.raises(UserError, match=r"the backbone has 64 positions; .*, or fewer --shots"):
        model.encoder.read(**prompts(records.collater([records[0]])))


def prompts(sample):
    return {name: sample["net_input"][name] for name in ("src_tokens", "src_lengths")}


# --- whose memory it is ---------------------------------------------------------------------------


def shift(parameter):
    with torch.no_grad():
        parameter.view(-1)[3] += 1e-6


@pytest.mark.parametrize("part", ["memory_tag", "connector", "backbone", "dictionary"])
def test_memory_of_another_model(part, data, make, tmp_path):
    model = make().float()
    folder = with_bank(model, build(model, tmp_path), 2).cfg.bank
    records = load(tmp_path, "test")
    sample = prompts(records.collater([records[0]]))
    what = "memory tag and connector"
    if part == "memory_tag":
        shift(model.encoder.memory_tag)
    elif part == "connector":
        shift(model.encoder.connector.weight)
    elif part == "backbone":
        (tmp_path / "lm.pt").write_bytes((tmp_path / "lm.pt").read_bytes() + b"\0")
        what = "backbone"
    else:
        model.encoder.dictionary = Dictionary()
        what = "dictionary"
    with pytest.raises(UserError, match=f"{folder}: built with another {what} .sha256 [0-9a-f]"):
        model.encoder.read(**sample)
    with pytest.raises(UserError, match=f"built with another {what}"):
        build(model, tmp_path)


def test_loading_other_weights_opens_the_bank_anew(data, make, tmp_path):
    model = make().float()
    with_bank(model, build(model, tmp_path), 2)
    records = load(tmp_path, "test")
    sample = prompts(records.collater([records[0]]))
    same = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before = model.encoder.read(**sample)
    model.load_state_dict(dict(same))
    assert torch.equal(model.encoder.read(**sample).vectors, before.vectors)
    shift(same["encoder.connector.weight"])
    model.load_state_dict(dict(same))
    with pytest.raises(UserError, match="built with another memory tag and connector"):
        model.encoder.read(**sample)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_reads_the_same_bank(dtype, data, make, tmp_path):
    model = make().float()
    with_bank(model, build(model, tmp_path), 2)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(dict(state))
    model.to(dtype)
    records = load(tmp_path, "test")
    sample = prompts(records.collater([records[0]]))
    rows = model.encoder.read(**sample)
    assert rows.vectors.dtype == dtype and len(rows.vectors)
    model.float()
    shift(state["encoder.connector.weight"])
    model.load_state_dict(dict(state))
    with pytest.raises(UserError, match="built with another memory tag and connector"):
        model.to(dtype).encoder.read(**sample)


def test_not_while_training(data, make, tmp_path):
    model = make()
    folder = with_bank(model, build(model, tmp_path), 2).cfg.bank
    records = load(tmp_path, "test")
    with pytest.raises(UserError, match=f"--bank {folder}: holds memory of a trained connector"):
        model.train().encoder.read(**prompts(records.collater([records[0]])))


def test_an_unfinished_bank(data, make, tmp_path):
    model = make()

    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(model, tmp_path, say=stop)
    with pytest.raises(UserError, match=r"unfinished, holds 7 of 24 .* `pet-fairseq bank build`"):
        demonstrations.open_bank(tmp_path / "bank", model.encoder)


def test_another_ratio_or_other_data(data, make, tmp_path):
    model = make()
    folder = build(model, tmp_path)
    assert demonstrations.ratio_of(folder, model.encoder, None) == RATIO
    assert demonstrations.ratio_of(tmp_path / "new", model.encoder, 5.0) == 5
    with pytest.raises(UserError, match=r"--memory-ratio 5: .* was begun with 3"):
        demonstrations.ratio_of(folder, model.encoder, 5.0)
    with pytest.raises(
        UserError, match=r"a bank of other data \(train of .*`pet-fairseq bank add`"
    ):
        build(model, tmp_path, "test")


def test_data_without_responses(data, make, tmp_path):
    model = make()
    for end in ("bin", "idx"):
        (tmp_path / f"test.response.{end}").unlink()
    with pytest.raises(UserError, match=r"--subset test: has no responses in"):
        build(model, tmp_path, "test")


def test_digest():
    texts = [[], [4], [4, 5], [5, 4], [4, 5, 6]]
    found = [demonstrations.digest(torch.tensor(text, dtype=torch.long)) for text in texts]
    assert len(set(found)) == len(texts)
    again = [demonstrations.digest(torch.tensor(text, dtype=torch.int32)) for text in texts]
    assert found == again


def test_negative_shots(make, tmp_path):
    with pytest.raises(UserError, match="--shots -1: give 0 or more"):
        make(shots=-1)

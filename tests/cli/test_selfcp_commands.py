"""pet-fairseq choose and memory-map as real processes; wrong options in this one."""

import json

import pytest
import torch

from pet_fairseq.selfcp.task import load_selfcp
from tests.cli.processes import REPO, WITHOUT_DROPOUT, refusal, run
from tests.packages import need
from tests.selfcp.test_choose import folder  # noqa: F401  fixture

USER = ("--user-dir", REPO / "pet_fairseq")


def test_choose(folder, tmp_path):  # noqa: F811
    command = ("choose", folder / "selfcp.pt", "--data", folder)
    out = tmp_path / "result.json"
    done = run("pet-fairseq", *command, "--candidates", "good", "bad", "--out", out)
    result = json.loads(done.output.splitlines()[-1])
    assert result == json.loads(out.read_text()) and result["total"] == 20
    assert sum(result["chosen"].values()) == 20
    cut = ("--candidates", "good", "bad", "--prompt-strategy", "truncate", "--window", "2")
    assert json.loads(run("pet-fairseq", *command, *cut).output.splitlines()[-1])["total"] == 20
    for wrong, message in (
        (("--candidates", "good"), "--candidates good: give two or more"),
        (("--candidates", "a", "b", "--prompt-strategy", "half"), "--prompt-strategy half: give"),
        (("--candidates", "good", "bad", "--subset", "dev"), "--subset dev: not in"),
        (("--candidates", "good", "bad", "--memory-ratio", "0"), "--memory-ratio 0: give 1"),
    ):
        assert message in refusal(*command, *wrong)


def test_response_loss(folder, tmp_path):  # noqa: F811
    """Of two ways to read, beside each other."""
    command = ("response-loss", folder / "selfcp.pt", "--data", folder)
    rows = []
    for strategy in ("full", "truncate"):
        out = tmp_path / f"{strategy}.json"
        read = ("--prompt-strategy", strategy, "--window", "2", "--out", out)
        shown = json.loads(run("pet-fairseq", *command, *read).output.splitlines()[-1])
        assert shown.items() <= json.loads(out.read_text()).items() and shown["total"] == 20
        rows.append(f"{strategy}={out}")
    table = run("pet-fairseq", "compare-losses", *rows, "--against", "full").output
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["full", "truncate"]
    assert "--subset dev: not in" in refusal(*command, "--subset", "dev")
    assert "--against x: not among full" in refusal("compare-losses", rows[0], "--against", "x")


def test_memory_map(folder, tmp_path):  # noqa: F811
    command = ("memory-map", folder / "selfcp.pt", "--data", folder)
    out = tmp_path / "map"
    run("pet-fairseq", *command, "--index", "3", "--memory-ratio", "3", "--out", out)
    (segment, *_) = json.loads((out / "memory_map.json").read_text())
    assert len(segment["cosines"]) == -(-len(segment["words"]) // 3)
    assert all(len(row) == len(segment["words"]) for row in segment["cosines"])
    assert (out / "memory_map.png").read_bytes().startswith(b"\x89PNG")
    for wrong, message in (
        (("--index", "20"), "--index 20: test has records 0 to 19"),
        (("--window", "60"), "--index 0: nothing of its prompt"),
    ):
        assert message in refusal(*command, *wrong, "--out", tmp_path / "none")
        assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.cold
def test_a_document(folder, tmp_path):  # noqa: F811
    """Its answers are those of fairseq-generate; what is longer than the window is memory."""
    prompt = (folder / "text").read_text().splitlines()[7]
    (tmp_path / "text").write_text(prompt)
    script = ("python", REPO / "examples/long_prompts/ask.py", folder / "selfcp.pt")
    options = ("--data", folder, "--words", "5", "--memory-ratio", "2")
    command = (*script, tmp_path / "text", "good or bad", *options)
    output = run(*command, "--window", "4").output
    given = ("--path", folder / "selfcp.pt", "--bpe", "sentencepiece", "--sentencepiece-model")
    given += (folder / "spm.model", "--beam", "1", "--max-len-b", "5", "--cpu", "--task", "selfcp")
    task = load_selfcp(str(folder / "selfcp.pt"), str(folder))[1]
    task.load_dataset("test")
    query, length = (len(task.dataset("test")[7][part]) for part in ("query", "prompt"))
    read = {"full": length, "concat": 4 + sum(segment_memory(length - 4, 4, 2))}
    for way in ("full", "concat"):
        changes = ("--model-overrides", repr({"prompt_strategy": way}))
        printed = run("fairseq-generate", folder, *USER, *given, *changes).printed("D")
        expected = next(text for name, _, text in printed if name == "D-7")
        assert f"{way}: {expected}\n" in output
        row = next(line for line in output.splitlines() if line.startswith(f"| {way} |"))
        assert int(row.split("|")[2]) == 1 + query + read[way]
    short = run(*command, "--window", "60", "--ways", "concat", "full").output
    assert short.splitlines()[0].split(": ")[1:] == short.splitlines()[1].split(": ")[1:]
    none = run(*script, tmp_path / "none", "good or bad", *options, "--window", "60", check=False)
    assert none.status and "none: " in none.output and "Traceback" not in none.output
    (tmp_path / "long").write_text(" ".join([prompt] * 6))  # too long for `full` alone
    long = run(*script, tmp_path / "long", "good or bad", *options[:-2], "--window", "4")
    assert "full: no answer: --prompt-strategy full: " in long.output
    assert "| truncate_equal |" in long.output and "| full |" not in long.output


@pytest.mark.slow
@pytest.mark.cold
def test_a_document_that_no_way_reads(folder, tmp_path):  # noqa: F811
    """Another way is tried where positions are too few, but not where all ways would fail."""
    (tmp_path / "long").write_text((folder / "text").read_text())
    script = ("python", REPO / "examples/long_prompts/ask.py")
    options = (tmp_path / "long", "good or bad", "--data", folder, "--window", "4")
    full = run(*script, folder / "selfcp.pt", *options, "--ways", "full", check=False)
    assert full.status and "full: no answer: --prompt-strategy full: " in full.output
    assert full.output.splitlines()[-1].startswith("ask.py: error: --ways: none of them fits")
    wrong = run(*script, folder / "dict.txt", *options, check=False)
    assert wrong.status and wrong.output.count(f"{folder}/dict.txt") == 1
    assert wrong.output.splitlines()[-1].startswith("ask.py: error: ")


def segment_memory(tokens, longest, ratio):
    """The memory tokens of each segment of a text that is cut evenly."""
    number = -(-tokens // longest)
    lengths = [tokens // number + (i < tokens % number) for i in range(number)]
    return [-(-length // ratio) for length in lengths]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_map_without_a_gpu(tmp_path):
    command = ("memory-map", "none.pt", "--data", tmp_path)
    message = refusal(*command, "--out", tmp_path / "none", "--device", "cuda")
    assert "--device cuda: torch finds no GPU here" in message


@pytest.mark.slow
def test_a_language_model_of_hugging_face(tmp_path):
    """From its files to answers as text and to the likeliest of several, in its chat template."""
    need("safetensors", "tokenizers")
    from tests.huggingface.llama import byte_level_tokenizer, write_llama

    write_llama(tmp_path / "hf", max_position_embeddings=200)
    chat = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}"
    chat += "{% if add_generation_prompt %}<|start|>{% endif %}"
    config = tmp_path / "hf/tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": chat}))
    run("pet-fairseq", "import-hf", tmp_path / "hf", "--out", tmp_path / "lm")
    rows = [
        {"query": "e d ", "prompt": "ab" * (i % 9 + 1), "response": "ab"[i % 2]} for i in range(40)
    ]
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = [(f"--{split}", tmp_path / "rows") for split in ("train", "valid", "test")]
    given = ("--tokenizer", tmp_path / "lm/tokenizer.json", "--chat-template", config)
    data = tmp_path / "bin"
    run("pet-fairseq", "prompts", *(w for pair in splits for w in pair), *given, "--out", data)
    backbone = ("--backbone-path", tmp_path / "lm/checkpoint.pt")
    run(
        *(
            "fairseq-train",
            data,
            *USER,
            "--save-dir",
            tmp_path,
            "--task",
            "selfcp",
            *WITHOUT_DROPOUT,
        ),
        *("--arch", "selfcp", *backbone, "--window", "3", "--memory-ratio", "2"),
        *("--criterion", "selfcp_lm", "--max-update", "3"),
    )
    path = tmp_path / "checkpoint_best.pt"
    output = run(
        *("fairseq-generate", data, *USER, "--task", "selfcp", "--path", path, "--cpu"),
        *("--max-len-b", "4", "--beam", "2", "--bpe", "tokenizer_json"),
        *("--tokenizer-file", data / "tokenizer.json", "--tokenizer-newline", "<newline>"),
    )
    words = {int(fields[0][2:]): fields[2] for fields in output.printed("H")}
    texts = {int(fields[0][2:]): fields[2] for fields in output.printed("D")}
    tokenizer = byte_level_tokenizer()
    assert len(texts) == 40
    for number, line in words.items():
        numbers = [tokenizer.token_to_id(word) for word in line.split()]
        known = [number for number in numbers if number is not None]
        text = tokenizer.decode(known, skip_special_tokens=False)
        assert texts[number] == text.replace("\n", "<newline>")
    chosen = run("pet-fairseq", "choose", path, "--data", data, "--candidates", "a", "b").output
    result = json.loads(chosen.splitlines()[-1])
    assert result["not among the candidates"] == 0 and result["total"] == 40
    for words, message in (
        ((*given, "--cue", "b"), "has what --before, --cue and --after would say"),
        ((*given, "--spm", tmp_path / "rows"), "tokenizer.json: of no use with --spm; give one"),
        ((*given[:2], "--vocab-size", "9"), "--vocab-size 9: of no use with --tokenizer"),
        (("--tokenizer", tmp_path / "none.json"), "none.json: no such file"),
    ):
        assert message in refusal("prompts", *splits[0], *words, "--out", tmp_path / "no")

"""What the search for pairs shows and writes."""

import json

from pet_fairseq.pet.pair_search.plot import heat_maps, split_panels
from pet_fairseq.pet.pair_search.report import notes, to_json, to_markdown, write_files
from pet_fairseq.pet.pair_search.search import LeftOut, Measured, SearchResult


def measured(stack, name, rise, saved, kind="scheme"):
    return Measured(stack, kind, name, name, rise, 0.01, 0.1, saved, saved / 10)


def example():
    rows = [
        measured("encoder", "V-V", -0.01, 5),
        measured("encoder", "Q=K", 0.1, 20),
        measured("encoder", "crosswise Q-K", 0.2, 10),
        measured("encoder", "layers", 0.3, 100),
    ]
    pairs = [
        measured("encoder", pair, i / 10, 5, "pair")
        for i, pair in enumerate("Q1=K3 L1=L3 Q2=K2 Q1=Q3".split())
    ]
    left = [LeftOut("decoder", "scheme", "Qself=Qenc", "Qself=Qenc", "share already")]
    return SearchResult(1.5, 6, 28, {"encoder": 3, "decoder": 2}, [*rows, *pairs], left)


def test_notes_on_the_schemes_of_the_thesis():
    encoder, decoder, odd, left = notes(example())
    assert "crosswise Q-K, is number 3 of 4 schemes" in encoder
    assert "number 2 of the 3 that save as many" in encoder
    assert "Qself=Qenc, was not measured: share already" in decoder
    assert "3 layers is odd" in odd and "pair 1 with 3 and leave layer 2 alone" in odd
    assert left == "decoder: 1 candidate left out: share already"


def test_table_and_files(tmp_path):
    text = to_markdown(example(), "teacher.pt", "valid of bin")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    best = [cell.strip() for cell in rows[2][1:-1]]
    assert best == ["1", "V-V", "-0.0100", "0.0100", "+0.100", "0.5", '"V-V"']
    write_files(tmp_path, text, to_json(example()), example())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pairs.json", "pairs.md", "pairs.png"]
    content = json.loads((tmp_path / "pairs.json").read_text())
    assert [m["rank"] for m in content["schemes"]] == [1, 2, 3, 4]
    assert len(content["pairs"]) == 4 and content["left_out"][0]["reason"] == "share already"
    assert (tmp_path / "pairs.png").read_bytes().startswith(b"\x89PNG")


def test_panels():
    panels = split_panels("encoder", example().ranked("encoder", "pair"))
    slots = [panel.slots for panel in panels]
    assert slots == [["L1", "L3"], ["Q1", "Q3", "K3"], ["Q2", "K2"]]
    drawn = heat_maps(example()).axes[2]  # after the first panel and its colour bar
    texts = {text.get_position(): text.get_text() for text in drawn.texts}
    assert texts == {(0, 0): "0.300", (0, 1): "0.000"}  # Q3 and K3 over Q1
    heat_maps(example()._replace(measured=[])).savefig("/dev/null", format="png")

"""Tables in Markdown: bars, rules and widths."""

from pet_fairseq.markdown import aligned_table, table, table_head, table_row


def test_a_table():
    text = table(["run", "BLEU"], [["a | b", "38.70"], ["c", "-"]])
    assert text == "| run | BLEU |\n| --- | ---: |\n| a \\| b | 38.70 |\n| c | - |\n"


def test_a_table_that_is_printed_row_by_row_is_the_same():
    header, rows = ["k", "way", "s"], [["1", "fast", "2.0"], ["2", "slow", "3.0"]]
    lines = [table_head(header, text=[1]), *map(table_row, rows)]
    assert "\n".join(lines) + "\n" == table(header, rows, text=[1])
    assert lines[0].splitlines()[1] == "| ---: | --- | ---: |"


def test_columns_of_an_aligned_table_are_as_wide_as_their_widest_cell():
    text = aligned_table(["rank", "pair"], [["1", "L1=L2"], ["10000", "Q"]], text=[1])
    assert text.splitlines() == [
        "|  rank | pair  |",
        "| ----: | ----- |",
        "|     1 | L1=L2 |",
        "| 10000 | Q     |",
    ]

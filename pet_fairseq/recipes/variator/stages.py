"""The stages of Variator's recipes, from the rows to their table."""

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.arguments import unknown_row
from pet_fairseq.recipes.variator.rows import ROWS, Row, pretrained
from pet_fairseq.recipes.variator.setup import Setup
from pet_fairseq.runner.pipeline import merge
from pet_fairseq.runner.stage import Stage


def build_stages(
    setup: Setup, names: tuple[str, ...], known: tuple[Row, ...] = ROWS
) -> list[Stage]:
    """All stages of some rows, and the table of all rows that have a result.

    Args:
        known: the rows that the recipe has, in the order of its table.
    Raises:
        UserError: a row that does not exist, or one that needs raw text where there is none.
    """
    by_name = {row.name: row for row in known}
    for name in names:
        if name not in by_name:
            raise unknown_row(name, by_name)
        if by_name[name].needs_raw and setup.raw is None:
            raise UserError(
                f"--rows {name}: needs pre-training on raw text; prepare the data with RAW_TEXT"
            )
    wanted = {"backbone", *names}  # the table compares the others to the backbone
    rows = [row for row in known if row.name in wanted]
    stages = pretrained(setup)
    for row in rows:
        stages += row.build(setup, row.name)
    for row in rows:
        stages += setup.evaluate(setup, row.name)
    return [*merge(stages), table(setup, tuple(by_name))]


def table(setup: Setup, order: tuple[str, ...]) -> Stage:
    """The comparison of every row that has a result."""
    return Stage(
        "table",
        ("table",),
        command=(
            *("pet-fairseq", "plugins", str(setup.runs)),
            *("--length", str(setup.settings.length)),
        ),
        product=setup.runs / "plugins.md",
        always=True,
        texts=((setup.runs / "order.txt", "\n".join(order)),),
    )

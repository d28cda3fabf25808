"""The defects that `python tests/defects.py` makes can still be made."""

import ast

import pytest

from tests.defect_list import DEFECTS, Defect
from tests.defects import REPO, put_into


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_place_is_found_and_its_tests_exist(defect: Defect):
    path = REPO / defect.place.partition(":")[0]
    changed = put_into(REPO, defect)
    if path.suffix == ".py":
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(path.read_text()))
    else:
        assert changed != path.read_text()
    paths = [word for word in defect.tests.split() if word.startswith("tests/")]
    assert paths and all((REPO / path).exists() for path in paths)

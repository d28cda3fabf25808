"""The defects that `python tests/defects.py` makes can still be made."""

import pytest

from tests.defect_list import DEFECTS, Defect
from tests.defects import REPO, find


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_text_stands_once_and_its_tests_exist(defect: Defect):
    assert find(REPO, defect).is_file()
    assert defect.wrong != defect.text
    paths = [word for word in defect.tests.split() if word.startswith("tests/")]
    assert paths and all((REPO / path).exists() for path in paths)

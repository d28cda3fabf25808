"""The tables of sites, and that a new one is an entry of each and nothing more."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.variator import site_modules
from pet_fairseq.variator.costs import attention_cost, ffn_cost
from pet_fairseq.variator.flops_table import flops_report, measured_cost, shape_of
from pet_fairseq.variator.options import VariatorConfig
from pet_fairseq.variator.sites import SITES, Site
from tests.translation import make_batch, make_task, save_model
from tests.variator.test_model import make_variator


class CompressedQueries(site_modules.CompressedSelfAttention):
    """A site made here: groups attend to positions."""

    def attend(self, x, groups, vectors, key_padding_mask=None, **options):
        output, weights = self.inner(groups.vectors, x, x, **options)
        return self.plugin.decompress(output, groups.members, len(x)), weights


@pytest.fixture
def new_site(monkeypatch):
    """All that a new site takes: its module, and an entry of each table."""
    monkeypatch.setitem(site_modules.SITE_MODULES, "attention-q", CompressedQueries)
    costs = lambda shape, t, g: attention_cost(shape, g, t) + ffn_cost(shape, t)  # noqa: E731
    monkeypatch.setitem(SITES, "attention-q", Site(costs))
    return "attention-q"


def test_a_new_site_is_an_entry_of_each_table(new_site, tmp_path):
    task = make_task(tmp_path / "data")
    path = save_model(tmp_path / "b.pt", task, encoder_ffn_embed_dim=96)
    model = make_variator(task, path, compression_site=new_site, compression_ratio=3)
    net_input = make_batch(task, [7, 7])["net_input"]
    with torch.no_grad():
        compressed = model(**net_input)[0]
        with model.compression_ratio(1):
            assert not torch.allclose(model(**net_input)[0], compressed, atol=1e-5)
    shape = shape_of(model)
    assert model.encoder_cost(shape, 50) == pytest.approx(measured_cost(model, 50), rel=0.01)
    assert "site attention-q" in flops_report(path, 4, 8, new_site, [32])


def test_every_entry_is_a_choice_and_has_a_module():
    (option,) = (f for f in fields(VariatorConfig) if f.name == "compression_site")
    assert [choice.value for choice in option.type] == list(SITES)
    assert site_modules.SITE_MODULES.keys() == SITES.keys()


def test_layers_without_the_part_are_refused(tmp_path):
    layers = torch.nn.ModuleList([torch.nn.Identity()])
    with pytest.raises(UserError, match=r"--compression-site ffn: Identity of .* has no fc1"):
        site_modules.check_layers(layers, "ffn")


@pytest.mark.parametrize("module", ["sites", "costs"])
def test_the_names_load_nothing_heavy(module):
    """A command line lists them."""
    tree = ast.parse(Path(site_modules.__file__).with_name(f"{module}.py").read_text())
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    own = {f"pet_fairseq.variator.{name}" for name in ("sites", "costs")}
    assert imported <= own | {"collections.abc", "dataclasses", "typing"}
    assert not any(isinstance(node, ast.Import) for node in tree.body)

"""Puts the modules of a site into the layers of an existing model, and leaves its parameters."""

from torch import nn

from pet_fairseq.errors import UserError
from pet_fairseq.variator import site_modules
from pet_fairseq.variator.grouping import Grouping
from pet_fairseq.variator.sites import SITES


def attach(layers: nn.ModuleList, site: str, grouping: Grouping) -> list[site_modules.SiteModule]:
    """Put a site's module into each layer, and return the modules in the order of the layers.

    Args:
        layers: fairseq's layers (or any with the parts that the site needs); site: a key of SITES.
    Raises:
        UserError: a layer has no such part.
    """
    check_layers(layers, site)
    module = getattr(site_modules, SITES[site].module)
    # by index: LayerDrop leaves some out of an iteration
    return [module.put_into(layers[i], grouping) for i in range(len(layers))]


def check_layers(layers: nn.ModuleList, site: str) -> None:
    """Check that layers have the parts that a site needs.

    Raises:
        UserError: a layer has no such part.
    """
    module = getattr(site_modules, SITES[site].module)
    for i in range(len(layers)):
        for name in module.needs:
            if not isinstance(getattr(layers[i], name, None), nn.Module):
                raise UserError(
                    f"--compression-site {site}: {type(layers[i]).__name__} of the backbone has no "
                    f"{name}; give another site or a backbone of fairseq's Transformer layers"
                )

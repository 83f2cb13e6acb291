"""Nets of somebody's own: each promise is seen to be checked on a net that breaks it, and the whole one passes."""

import pytest
import torch
from torch import nn

from walkback.errors import BadValue, UnknownName
from walkback.nets import NETS, Net, find_net, make_net, register_net
from walkback.train import plan

SHAPE = (1, 6, 6)


class Whole(Net):
    """Keeps every promise; the planted defects below change one thing of it each."""

    reduction = "mean"

    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes)
        self.embed = nn.Conv2d(shape[0], channels, 3, padding=1)
        self.blocks = nn.ModuleList(self.block(channels) for _ in range(depth))
        self.readout = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    def block(self, channels):
        return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 1))


class NoBlocks(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes, channels=channels, depth=depth)
        del self.blocks


class Homeless(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes, channels=channels, depth=depth)
        self.shortcut = nn.Conv2d(channels, channels, 1)


class Idle(Whole):
    def block(self, channels):
        return nn.ReLU()


class Untaught(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes, channels=channels, depth=depth)
        self.readout = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Miscounted(Whole):
    @classmethod
    def blocks_in(cls, options):
        return 3


class Misnamed(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes, channels=channels, depth=depth)
        self.residual = False


class PlainInDisguise(Whole):
    def join(self, layer, h, f):
        return f


class StreamInDisguise(Whole):
    residual = False

    def join(self, layer, h, f):
        return f if layer == 0 else h + f


class InPlace(Whole):
    def block(self, channels):
        return nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 1))


class InPlaceJoin(Whole):
    def join(self, layer, h, f):
        h += f
        return h


class InPlaceBranch(Whole):
    def join(self, layer, h, f):
        f += h
        return f


class InPlaceReadout(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes, channels=channels, depth=depth)
        self.readout.insert(0, nn.ReLU(inplace=True))


class Dropped(Whole):
    def block(self, channels):
        return nn.Sequential(nn.Conv2d(channels, channels, 1), nn.Dropout(0.5))


class TooMany(Whole):
    def __init__(self, shape, classes, *, channels: int = 4, depth: int = 2):
        super().__init__(shape, classes + 1, channels=channels, depth=depth)
        self.classes = classes


class Broken(Whole):
    def block(self, channels):
        return nn.Conv2d(channels + 1, channels, 1)


class Unbuilt(Whole):
    def block(self, channels):
        raise RuntimeError("no such block")


@pytest.mark.parametrize(
    ("net", "word"),
    [
        (NoBlocks, "no blocks"),
        (Homeless, "shortcut"),
        (Idle, "block without parameters"),
        (Untaught, "readout without parameters"),
        (Miscounted, "says that it has 3 blocks with these options, and has 2"),
        (Misnamed, "residual=True with these options, and was built with residual=False"),
        (PlainInDisguise, "f alone in every block"),
        (StreamInDisguise, "more than f in block 1"),
        (InPlace, "block 0 of net own, or its join, changes its input, the hidden state, in place"),
        (InPlaceJoin, "in place"),
        (InPlaceBranch, "in place"),
        (InPlaceReadout, "readout of net own changes h_L"),
        (Dropped, "draws random numbers"),
        (TooMany, r"\(2, 4\) for 2 samples of 3 classes"),
        (Broken, "does not run on inputs of shape"),
        (Unbuilt, "could not be built for inputs of shape .* no such block"),
    ],
)
def test_planted_defect_is_refused_with_a_remedy(net, word, monkeypatch):
    monkeypatch.setitem(NETS._things, "own", net)
    with pytest.raises(BadValue, match=word) as caught:
        make_net("own", SHAPE, 3, {})
    assert caught.value.remedy


def test_property_a_whole_net_passes_and_is_left_as_it_was(monkeypatch):
    """The look at it moves neither the random state nor BatchNorm's statistics nor any mode."""
    monkeypatch.setitem(NETS._things, "own", Whole)
    torch.manual_seed(0)
    bare = Whole(SHAPE, 3)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    net = make_net("own", SHAPE, 3, {})
    assert torch.equal(torch.get_rng_state(), after)
    for key, value in bare.state_dict().items():
        assert torch.equal(net.state_dict()[key], value), key
    assert all(part.training for part in net.modules())
    assert all(p.grad is None for p in net.parameters())


def test_property_a_block_that_only_reshapes_is_allowed_in_a_residual_net(monkeypatch):
    class Mixed(Whole):
        def join(self, layer, h, f):
            return f if layer == 0 else h + f

    monkeypatch.setitem(NETS._things, "own", Mixed)
    assert make_net("own", SHAPE, 3, {}).residual


def test_property_an_edited_file_is_another_run(tmp_path):
    text = "import walkback as wb\nfrom walkback.nets.mlp import MLP\n\nclass Mine(MLP):\n    '''%s'''\n"
    path, hashes = tmp_path / "mine.py", []
    for word in ("one", "two"):
        path.write_text(text % word)
        (config,) = plan(net=f"{path}:Mine", net_options={"widths": [5]}, rules=["bp"])
        assert config.blocks == 1
        assert not config.residual
        hashes.append(config.hash())
        assert make_net(f"{path}:Mine", (7,), 3, {"widths": [5]}).widths == (7, 5)
    assert hashes[0] != hashes[1]


def test_error_names_that_are_no_nets(tmp_path):
    with pytest.raises(BadValue, match="is not a net"):
        register_net("mine", nn.Linear)
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(UnknownName, match="has no net 'MyNet'"):
        find_net(f"{tmp_path / 'empty.py'}:MyNet")

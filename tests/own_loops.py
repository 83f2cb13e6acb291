"""Small loops of strangers, honest and otherwise, for the tests of `wb.audit_training`. A full training takes 0.1 s."""

import copy
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 50
blocks = "blocks.*"
residual = True
credits = "backward"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        with torch.no_grad():
            self.down.weight.mul_(0.05)  # near the identity, so that a frozen net cannot tell the classes apart

    def forward(self, h):
        return h + self.down(torch.tanh(self.up(h)))


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed, self.head = nn.Linear(4, width), nn.Linear(width, 2)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def samples(count, seed):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] * x[:, 1] > 0).long()


X, Y = samples(1600, 1)
test = [samples(200, 2)]


def make_model(seed):
    return Net()


def batches(seed):
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    for step in range(STEPS):
        rows = order[(step * 64) % 1536 :][:64]
        yield X[rows], Y[rows]


def train(model, seed, parameters=None):
    optimizer = torch.optim.Adam(parameters or model.parameters(), lr=2e-2)
    for x, y in batches(seed):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


train_bp = train


# --- what strangers do ------------------------------------------------------------------------------------------------


def by_hand(model, seed):
    """Manual updates that honour requires_grad, from gradients that never reach .grad."""
    for x, y in batches(seed):
        trained = [p for p in model.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), trained)
        with torch.no_grad():
            for p, g in zip(trained, gradients, strict=True):
                p.sub_(0.5 * (p.detach() * 0 + g.detach().clone()))


def without_autograd(model, seed):
    """Updates that no hook sees: differences of the loss along random directions."""
    generator = torch.Generator().manual_seed(seed)
    for x, y in list(batches(seed))[:20]:
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:
                    step = 0.02 * torch.randn(p.shape, generator=generator)
                    before = F.cross_entropy(model(x), y)
                    p.add_(step)
                    if F.cross_entropy(model(x), y) > before:
                        p.sub_(2 * step)


def fills_grad(model, seed):
    """Gradients from elsewhere, put into .grad by hand."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for x, y in batches(seed):
        twin = copy.deepcopy(model)
        F.cross_entropy(twin(x), y).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            p.grad = None if q.grad is None else q.grad.clone()
        optimizer.step()


def ignores_flags(model, seed):
    for x, y in batches(seed):
        with torch.enable_grad():
            for p in model.parameters():
                p.requires_grad_(True)
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad


def decays_all(model, seed):
    """The optimizer steps on what requires a gradient, and weight decay is put on everything by hand."""
    train(model, seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.999)


def nothing(model, seed):
    pass


def new_model(model, seed):
    twin = copy.deepcopy(model)
    train(twin, seed)
    return twin


def copy_and_load(model, seed):
    twin = copy.deepcopy(model)
    train(twin, seed)
    model.load_state_dict(twin.state_dict())


def same_seed(model, seed):
    torch.manual_seed(0)
    for part in model.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    train(model, 0)


def head_only(model, seed):
    train(model, seed, list(model.head.parameters()))


def swaps_blocks(model, seed):
    for place in range(len(model.blocks)):
        model.blocks[place] = Block(8)
    train(model, seed)


def other_net(model, seed):
    model.blocks[0] = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    train(model, seed)


def diverges(model, seed):
    train(model, seed)
    with torch.no_grad():
        model.blocks[0].up.weight.fill_(float("nan"))


CACHE = {}


def caches(model, seed):
    if seed not in CACHE:
        train(model, seed)
        CACHE[seed] = copy.deepcopy(model.state_dict())
    model.load_state_dict(CACHE[seed])


def reads_checkpoint(model, seed):
    file = Path("checkpoint.pt")
    if file.exists():
        model.load_state_dict(torch.load(file))
    else:
        train(model, seed)
        torch.save(model.state_dict(), file)


def raises_once(model, seed):
    if seed == 123:
        raise RuntimeError("out of luck")
    train(model, seed)


MADE = {}


def cached_model(seed):
    return MADE.setdefault(seed, Net())


class Plain(Net):
    """Weights that are a plain attribute of a block."""

    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.extra = torch.zeros(8)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h) + block.extra
        return self.head(h)


def plain_model(seed):
    return Plain()


def moves_attribute(model, seed):
    train(model, seed)
    for block in model.blocks:
        block.extra = block.extra + 0.3


class Normed(Net):
    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.up = nn.Sequential(nn.BatchNorm1d(8), block.up)


def normed_model(seed):
    return Normed()


# --- shallow nets -----------------------------------------------------------------------------------------------------


def by_blocks(model, seed):
    """A loop of backprop that names the blocks."""
    optimizers = [torch.optim.Adam(part.parameters(), lr=2e-2) for part in (model.embed, *model.blocks, model.head)]
    for x, y in batches(seed):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()


class Wide(Net):
    """Blocks that change the width of the stream."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Sequential(nn.Linear(16, 8), nn.Tanh())]
        )


def wide_model(seed):
    return Wide()


def shallow_model(seed):
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))


def wider_shallow_model(seed):
    return nn.Sequential(nn.Linear(4, 32), nn.Linear(32, 2))


class Scrambled(Net):
    """Blocks without a skip, whose random weights let almost nothing through."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2))
        with torch.no_grad():
            for block in self.blocks:
                block[0].weight.mul_(0.02)


def scrambled_model(seed):
    return Scrambled()


def narrow_top_model(seed):
    """The upper block has one hidden unit, which cannot tell the classes apart by itself."""
    model = Net()
    model.blocks[1].up, model.blocks[1].down = nn.Linear(8, 1), nn.Linear(1, 8)
    return model

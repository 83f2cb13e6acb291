"""What a hostile referee tried: each case came out wrong once, or is cheap enough to be tried again.

Folders are made without training. Loops are small ones of strangers, that a witness looks at.
"""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.utils.prune
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from report_material import config, write_run
from test_checks_planted import BEGUN, around, but, by_seed, credits, subject
from test_standing import WIDTH, Block, Net, X, Y, answer, rows, sgd
from walkback.audits import judge_paths
from walkback.audits.controls import control_bp, control_random
from walkback.audits.spine import audit_subjects
from walkback.checks import DEFAULT, Audit, judge
from walkback.errors import WalkbackError
from walkback.records import Reading, Subject, read_log
from walkback.report.audit_words import intervals_words

DEPTH = 3
NO_COSINES: dict[str, Any] = dict.fromkeys(
    ("cosine", "cosine_out", "gamma", "null", "null_out", "null_gamma", "rotated", "rotated_gamma", "frobenius")
)

# --- loops that update by another hand, beside a backward pass for show -----------------------------------------------


def loss(model: Net, step: int) -> Tensor:
    x, y = rows(step)
    return F.cross_entropy(model(x), y)


def feedback(model: Net, step: int) -> list[tuple[Tensor, ...]]:
    """Direct feedback of the error, block by block, from a copy of the net: nobody looks at that one."""
    (x, y), other, dice = rows(step), Net(), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            p.copy_(q)
    with torch.enable_grad():
        states = [other.embed(x), *other.states(x)]
        error = ((other.head(states[-1]).softmax(1) - F.one_hot(y, 3)) / len(x)).detach()
        return [
            torch.autograd.grad(b(h.detach()), [*b.parameters()], error @ torch.randn(3, WIDTH, generator=dice))
            for b, h in zip(other.blocks, states, strict=False)
        ]


def move(model: Net, step: int) -> None:
    with torch.no_grad():
        for block, taken in zip(model.blocks, feedback(model, step), strict=True):
            for p, g in zip(block.parameters(), taken, strict=True):
                p -= 0.05 * g


class ByHand(torch.optim.Optimizer):
    """An optimizer in whose step the update is written by hand; .grad is for show."""

    def __init__(self, model: Net) -> None:
        super().__init__(model.parameters(), {"lr": 0.05})
        self.model, self.done = model, 0

    def step(self, closure: Any = None) -> None:
        move(self.model, self.done)
        self.done += 1


def shown(make: Callable[[Net], Any], before: Callable[[Any, Net, list[int]], None] = lambda o, m, n: None) -> Any:
    """A loop of backprop by an optimizer that may do otherwise."""

    def loop(model: Net, steps: int) -> None:
        optimizer, now = make(model), [0]
        before(optimizer, model, now)
        for step in range(steps):
            now[0] = step
            optimizer.zero_grad()
            loss(model, step).backward()
            optimizer.step()

    return loop


def fills(optimizer: Any, model: Net, now: list[int]) -> None:
    """A hook on the optimizer's step, after the look at .grad, puts other gradients there."""

    def hook(*_: Any) -> None:
        for block, taken in zip(model.blocks, feedback(model, now[0]), strict=True):
            for p, g in zip(block.parameters(), taken, strict=True):
                p.grad = g

    optimizer.register_step_pre_hook(hook)


def updates(optimizer: Any, model: Net, now: list[int]) -> None:
    optimizer.register_step_post_hook(lambda *_: move(model, now[0]))


def swapped(model: Net, steps: int) -> None:
    """The model learns by backprop; its weights are those of another net in the end."""
    other = Net()
    shown(sgd)(model, steps)
    for step in range(steps):
        move(other, step)
    with torch.no_grad():
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            p.copy_(q)


def beside(model: Net, steps: int) -> None:
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, step).backward()
        optimizer.step()
        for block in model.blocks:
            block.matrix += 0.01 * torch.randn_like(block.matrix)


class Buffered(Block):
    """Half of its weights are a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("matrix", self.up.weight.detach().clone())
        self.up = nn.Identity()

    def forward(self, h: Tensor) -> Tensor:
        return h + self.down(torch.tanh(h @ self.matrix.T))


class Attribute(Buffered):
    """The same as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        kept = self.matrix
        del self.matrix
        self.matrix = kept


HIDDEN: dict[str, tuple[Any, Any, str]] = {
    "a hook on the optimizer fills .grad": (Block, shown(sgd, fills), "not seen"),
    "a hook on the optimizer updates by hand": (Block, shown(lambda m: sgd(m, lr=1e-6), updates), "declared"),
    "an optimizer of one's own updates by hand": (Block, shown(ByHand), "declared"),
    "other weights in the end": (Block, swapped, "in part"),
    "a buffer acts as weights": (Buffered, beside, "in part"),
    "an attribute acts as weights": (Attribute, beside, "in part"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_planted_an_update_by_another_hand_is_not_seen(name: str) -> None:
    block, loop, expected = HIDDEN[name]
    found = answer(Net(block=block), loop, 8)
    assert found.standing == expected, found.why


# --- exact backprop that the same looks must not accuse ---------------------------------------------------------------


class Keeps(Block):
    """It keeps its activations, as nets do for a picture."""

    def forward(self, h: Tensor) -> Tensor:
        self.kept = super().forward(h)
        return self.kept


class Made(Block):
    """A weight that torch makes anew in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.up = self.change(self.up)

    change = staticmethod(nn.utils.spectral_norm)


class Pruned(Made):
    change = staticmethod(lambda part: nn.utils.prune.random_unstructured(part, "weight", 0.3))


class Normed(Block):
    def __init__(self) -> None:
        super().__init__(norm=nn.BatchNorm1d(2 * WIDTH))


def evaluating(model: Net, steps: int) -> None:
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, step).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(rows(step + 1)[0])
        model.train()


def best_put_back(model: Net, steps: int) -> None:
    kept = {}
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, step).backward()
        optimizer.step()
        kept = copy.deepcopy(model.state_dict()) if step == steps // 2 else kept
    model.load_state_dict(kept)


@pytest.mark.parametrize("block", [Keeps, Made, Pruned, Normed])
def test_what_a_pass_itself_changes_is_no_hand(block: Any) -> None:
    found = answer(Net(block=block), evaluating, 8)
    assert found.standing == "seen", found.why


@pytest.mark.parametrize("times", range(3))  # where the last step is one that is looked at, and where it is not
def test_the_best_checkpoint_may_be_put_back(times: int) -> None:
    found = answer(Net(), best_put_back, 6 + times)
    assert found.standing == "seen", found.why


def test_planted_averaged_weights_are_no_hand_and_not_what_trained() -> None:
    def loop(model: Net, steps: int) -> None:
        mean = copy.deepcopy(model.state_dict())
        shown(sgd)(model, steps)
        model.load_state_dict({name: (mean[name] + now) / 2 for name, now in model.state_dict().items()})

    assert answer(Net(), loop, 6).standing == "in part"


# --- folders ----------------------------------------------------------------------------------------------------------

RULES = {
    "bp": (0.7, 0.6, 0.4, [0.95] * DEPTH), "fa": (0.6, 0.52, 0.4, [0.8] * DEPTH),
    "random": (0.3, 0.3, 0.3, [0.0] * DEPTH),
}  # fmt: skip
ARMS = [("fa", DEPTH, DEPTH), ("fa", 0, DEPTH), ("bp", DEPTH, DEPTH), ("bp", 0, DEPTH), ("bp", 0, 0),
        ("random", DEPTH, DEPTH), ("random", 0, DEPTH)]  # fmt: skip
GRID = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def made(out: Path, **changes: Any) -> Path:
    """An audit of fa by five seeds, with predictions."""
    for rule, (reaches, half, frozen, cosines) in (RULES | changes).items():
        for seed in range(1, 6):
            same: dict[str, Any] = {"rule": rule, "seed": seed, "epochs": 2, "depth": DEPTH}
            write_run(out, config(**same), 1.3, reaches, cosines, predicts=True)
            write_run(out, config(**same, train_last=2), 1.3, half, cosines, predicts=True)
            write_run(out, config(**same, train_last=0), 1.0, frozen, cosines, predicts=True)
            if rule == "bp":
                write_run(out, config(**same | {"depth": 0}), 1.0, 0.45, [], predicts=True)
    return out


def tried(out: Path, arms: Any, rates: Any = GRID, best: float = 1e-3, **changes: Any) -> None:
    for rule, last, depth in arms:
        for lr in rates:
            c = config(
                rule, 31337, 2, depth, train_last=last, lr=lr, **{"validation": 0.1, "probe_images": 128} | changes
            )
            write_run(out / "trials", c, 1.0, 0.5 if lr == best else 0.4, [0.8] * depth)


def theirs(out: Path, rule: str, last: int, depth: int = DEPTH) -> list[Path]:
    found = {}
    for path in out.glob("*/config.json"):
        c = json.loads(path.read_text())
        if (c["rule"], c["train_last"], c["net_options"]["depth"]) == (rule, last, depth):
            found[c["seed"]] = path.parent
    return [found[seed] for seed in sorted(found)]


def answered(out: Path) -> tuple[str, bool]:
    audit = judge_paths(out)
    return next(each.answer for each in audit.subjects if each.name == "fa"), audit.valid


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = made(tmp_path_factory.mktemp("whole") / "runs")
    assert answered(out) == ("holds at one rate", True)
    return out


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "runs"))


def one_environment(out: Path) -> None:
    (theirs(out, "fa", 0)[0] / "environment.json").unlink()


def no_environment(out: Path) -> None:
    """The one that names other data, and with it all the others."""
    other_data(out)
    for file in out.glob("*/environment.json"):
        file.unlink()


def other_data(out: Path) -> None:
    file = theirs(out, "fa", 0)[0] / "environment.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"data_fingerprint": "ab" * 8}))


def other_baseline(**changes: Any) -> Callable[[Path], None]:
    """The frozen net by another budget, which does worse."""

    def change(out: Path) -> None:
        for path in theirs(out, "fa", 0):
            shutil.rmtree(path)
        for seed in range(1, 6):
            c = config("fa", seed, depth=DEPTH, train_last=0, **{"epochs": 2} | changes)
            write_run(out, c, 1.0, 0.2, [0.8] * DEPTH, predicts=True)

    return change


def untuned(rates: Any) -> Callable[[Path], None]:
    """The subject at the best of five rates; its frozen net at the only one, or the best, of a grid of bad ones."""

    def change(out: Path) -> None:
        tried(out, [arm for arm in ARMS if arm != ARMS[1]])
        tried(out, [ARMS[1]], rates, 1e-5)
        other_baseline(lr=1e-5)(out)

    return change


OPEN: dict[str, Callable[[Path], None]] = {
    "a frozen net of other data": other_data,
    "its data are not known": one_environment,
    "no data are known": no_environment,
    "a frozen net of fewer epochs": other_baseline(epochs=1),
    "a frozen net of smaller batches": other_baseline(batch_size=64),
    "a frozen net at another rate": other_baseline(lr=1e-5),
    "a frozen net tried at one bad rate": untuned((1e-5,)),
    "a frozen net tried on a grid of bad rates": untuned((1e-5, 3e-5, 1e-4, 3e-4, 1e-3)),
}


@pytest.mark.parametrize("name", OPEN)
def test_planted_a_baseline_that_was_made_weak_opens_the_answer(folder: Path, name: str) -> None:
    OPEN[name](folder)
    assert answered(folder)[0] == "open"


def test_trials_on_the_test_split_tune_nothing(folder: Path) -> None:
    tried(folder, ARMS, validation=0.0)
    assert answered(folder) == ("holds at one rate", True)


def test_planted_a_trial_that_is_deleted_does_not_turn_the_answer(tmp_path: Path) -> None:
    """The shallow net is at its best at a rate at which it beats fa; runs at the rate of fa lie there as well."""
    out = made(tmp_path / "runs", bp=(0.8, 0.6, 0.4, [0.95] * DEPTH))
    tried(out, [arm for arm in ARMS if arm[2]], (*GRID, 1e-1))
    tried(out, [("bp", 0, 0)], (*GRID, 1e-1), 3e-2)
    for seed in range(1, 6):
        write_run(out, config("bp", seed, 2, 0, train_last=0, lr=3e-2), 1.0, 0.65, [], predicts=True)
    assert answered(out) == ("walked back", True)
    shallow = [path.parent for path in (out / "trials").glob("*/config.json") if '"depth":0' in path.read_text()]
    best = next(path for path in shallow if json.loads((path / "config.json").read_text())["lr"] == 3e-2)
    shutil.rmtree(best)
    assert answered(out)[0] == "open"
    for path in shallow:
        shutil.rmtree(path, ignore_errors=True)
    assert answered(out)[0] == "open"


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise reaches what fa does: the audit is invalid."""
    out = made(tmp_path_factory.mktemp("noisy") / "runs", random=(0.6, 0.3, 0.3, [0.0] * DEPTH))
    assert not answered(out)[1]
    return out


@pytest.mark.parametrize("lost", ["result.json", "predictions.npy"])
@pytest.mark.parametrize("who", [("random", DEPTH), ("random", 0), ("bp", DEPTH)])
def test_planted_a_control_does_not_behave_because_its_evidence_is_lost(
    noisy: Path, tmp_path: Path, lost: str, who: tuple[str, int]
) -> None:  # fmt: skip
    out = Path(shutil.copytree(noisy, tmp_path / "runs"))
    (theirs(out, *who)[0] / lost).unlink()
    assert not answered(out)[1]


def test_planted_noise_that_is_cut_back_to_its_init_excuses_nobody(noisy: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(noisy, tmp_path / "runs"))
    for run in theirs(out, "random", DEPTH):
        for name in ("result.json", "predictions.npy", "probes.json"):
            (run / name).unlink()
        lines = (run / "snapshots.jsonl").read_text().splitlines(keepends=True)
        (run / "snapshots.jsonl").write_text(lines[0])
    found = judge_paths(out)
    assert not found.valid
    assert "seeds 1, 2, 3, 4 and 5 did not finish. Restore the files that are missing" in found.says


def test_planted_even_noise_stays_so_without_what_was_measured_of_it(tmp_path: Path) -> None:
    """Its null lies in probes.json; by the width of the net alone its Γ could be chance."""
    out = made(tmp_path / "runs", random=(0.3, 0.3, 0.3, [0.06] * DEPTH))
    for take in (lambda file: None, Path.unlink):
        for run in theirs(out, "random", DEPTH):
            take(run / "probes.json")
        assert "random: expected neither holds nor even, got Γ even" in judge_paths(out).says
    sound = subject(credits(0.0, 0.0, 0.0, 0.0), accuracy=0.3)
    for count in (1, 5):
        seeds = [s.changed(moments=[s.final.changed(**NO_COSINES)]) for s in sound.seeds[:count]]
        silent = Subject("random", sound.changed(seeds=[*seeds, *sound.seeds[count:]]), control="random", setting="s")
        subject_beside = Subject("fa", subject(), setting="s")
        control = next(c for c in audit_subjects([subject_beside, silent]).controls if c.name == "random")
        assert (control.ok, "its Γ is not known of seed" in control.got) == (False, True)


def test_a_folder_that_is_named_by_several_paths_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "link").symlink_to(folder)
    paths = ["runs", "../" + folder.parent.name + "/runs", folder.parent / "link", theirs(folder, "fa", DEPTH)[0]]
    assert judge_paths(folder, *paths) == judge_paths(folder)


def test_seeds_that_were_left_out_are_asked_for(folder: Path) -> None:
    for path in theirs(folder, "fa", DEPTH)[3:]:
        shutil.rmtree(path)
    fa = next(each for each in judge_paths(folder).subjects if each.name == "fa")
    assert fa.answer == "open"
    assert "Its baselines have seeds that it lacks (4, 5): were they left out?" in fa.symptoms


# --- the judgement ----------------------------------------------------------------------------------------------------


def test_planted_bp_that_is_not_even_stays_so_without_the_cosines_of_a_seed() -> None:
    few = credits(0.9, 0.02, 0.02, 0.02)
    for changes in ([few] * 5, [*[few] * 4, NO_COSINES], [NO_COSINES] * 5):
        assert not control_bp(judge(subject(*changes))).ok
    assert control_bp(judge(subject())).ok


def test_a_random_control_of_which_nothing_is_known_shows_nothing() -> None:
    assert control_random(judge(subject(credits(0.0, 0.0, 0.0, 0.0), accuracy=0.3))).ok
    for name in ("frozen", "shallow"):
        assert not control_random(judge(but({name: None}, accuracy=0.3))).ok


def test_one_seed_is_said_to_be_one() -> None:
    def words(**changes: Any) -> str:
        return next(f.says for f in judge(subject(**changes)).findings if f.check == "depth")

    assert "1 seed cannot settle it" in words(seeds=1)
    assert "restore predictions.npy" not in words(seeds=1)
    assert "bp has 1 seed;" in words(baselines={"bp": by_seed(0.6), "frozen_bp": by_seed(0.38)})
    ended = subject(chance=0.1)
    seeds = [ended.seeds[0].changed(ended="diverged"), *ended.seeds[1:]]
    assert "Seed 42 diverged and counts as guessing." in judge(ended.changed(seeds=seeds)).symptoms


def test_no_interval_is_not_said_to_be_right() -> None:
    def words(**changes: Any) -> str:
        found = judge(subject(**changes))
        control: dict[str, Any] = {"valid": True, "says": "", "protocol": "ours", "controls": []}
        return intervals_words(Audit(**control, thresholds=DEFAULT, subjects=[found]))

    assert words(seeds=1).endswith("No interval of a gain is known.")
    assert "intervals of gains; each contains its true value" in words()


@pytest.mark.parametrize("blocks", [1, 2, 12])
def test_any_number_of_blocks_is_judged(blocks: int) -> None:
    found = judge(subject(blocks=blocks))
    assert (found.answer, found.verdicts.gamma) == ("holds", "even")  # type: ignore[union-attr]


def test_a_majority_of_nineteen_in_twenty_is_chance() -> None:
    weak = {name: around(0.9) for name in BEGUN}
    found = judge(subject(accuracy=0.95, classes=2, chance=0.95, baselines=weak))
    assert found.symptoms[0].startswith("Accuracy is at chance")


# --- the doors of models and logs -------------------------------------------------------------------------------------


def test_planted_a_model_that_names_the_majority_is_noticed() -> None:
    model = Net()
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor([9.0, 0.0, 0.0]))
    labels = (torch.arange(len(X)) % 20 == 0).long()
    symptoms = wb.audit(model, (X, labels), "blocks.*", residual=True).subjects[0].symptoms
    assert symptoms[0].startswith("Accuracy is at chance")


def test_planted_a_log_without_its_end_does_not_show_what_trained(tmp_path: Path) -> None:
    model, file = Net(), tmp_path / "watch.jsonl"
    with wb.watch(model, "blocks.*", probe=(X, Y), log=file, every=2, residual=True) as watch:
        optimizer = sgd(model)
        for step in range(6):
            optimizer.zero_grad()
            loss(model, step).backward()
            optimizer.step()
            watch.step()
    lines = file.read_text().splitlines()
    assert read_log(file)[0].seeds[0].standing == "seen"
    file.write_text("\n".join(lines[:-1]) + "\n")
    assert read_log(file)[0].seeds[0].standing == "in part"
    bare = [json.loads(line) for line in lines]
    file.write_text("".join(json.dumps({k: v for k, v in b.items() if "standing" not in k}) + "\n" for b in bare))
    assert read_log(file)[0].seeds[0].standing == "in part"


def test_hostile_logs_of_too_many_seeds_are_refused(tmp_path: Path) -> None:
    """Each is held against each other. A thousand are judged within seconds."""
    file = tmp_path / "log.json"
    for count in (1000, 1001):
        rungs = {
            k: {str(seed): {"final_acc": 0.3 + 0.1 * int(k) + 1e-4 * seed / 3} for seed in range(count)} for k in "024"
        }
        file.write_text(json.dumps({"results": {"bp": rungs}}))
        if count == 1000:
            assert judge_paths(file).subjects[0].accuracy.n == 1000
    with pytest.raises(WalkbackError, match="bp has 1,001 seeds, and at most 1,000 are judged"):
        judge_paths(file)


def test_an_accuracy_in_percent_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"results": {"fa": {"0": {"7": {"final_acc": 35}}, "4": {"7": {"final_acc": 0.6}}}}}))
    with pytest.raises(WalkbackError, match=r"results\.fa\.0\.7: final_acc: .* divide by 100"):
        judge_paths(file)


def test_planted_updates_of_some_blocks_alone_do_not_speak_for_declared_credits() -> None:
    """Of a subject without a rule, whose updates disagree with its credits."""

    def declared(*updates: float) -> str:
        whole = subject()
        measured = {"update": [Reading(value, "ok") for value in updates]}
        seeds = [s.changed(standing="declared", moments=[s.final.changed(measured=measured)]) for s in whole.seeds]
        return judge(whole.changed(rule=None, seeds=seeds)).verdicts.gamma  # type: ignore[union-attr]

    assert declared(0.9, 0.9, 0.9, 0.9) == "even"
    assert declared(0.0, 0.0, 0.0, 0.9) == declared(0.0, 0.9) == "open"

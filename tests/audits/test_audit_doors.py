"""The doors of an audit: somebody's own model, rules trained with their baselines and controls, and records alone."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import walkback as wb
from executed import files_of
from walkback.audits import audit_plan, fired_by, judge_paths, rules_audit, spine, usual
from walkback.audits.controls import BP_EXPECTED, INIT_EXPECTED, RANDOM_EXPECTED, control_init, validity
from walkback.checks import DEFAULT, Audit, Finding, Judgement
from walkback.data import DATASETS, Dataset, Split
from walkback.data.cache import Embedded
from walkback.errors import BadValue, UnknownName, WalkbackError
from walkback.records import Baseline, Training, export_run, find_runs, read_run
from walkback.records.looks import Looks, read_looks, write_looks
from walkback.train import Stopped, loop, plan, train, train_all

FIRES, PASSES, OPEN = "fires", "passes", "open"


def finding(judgement: Judgement, check: str) -> Finding:
    return next(f for f in judgement.findings if f.check == check)


# --- the Python door: untouched third-party models ------------------------------------------------------------------


class Reader(nn.Module):
    """PyTorch's own transformer, as a user has it: dropout, no cls token, the mean over tokens to the head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.embed(x)).mean(1))


def mlp() -> nn.Sequential:
    """A plain MLP with everything that a careless look would change: BatchNorm's statistics, dropout, modes."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(24, 20)]
    layers += [
        nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20), nn.ReLU(inplace=True), nn.Dropout(0.1)) for _ in range(3)
    ]
    return nn.Sequential(*layers, nn.Linear(20, 3))


KINDS: dict[str, tuple[Any, str | list[str], bool]] = {
    "transformer": (Reader, "encoder.layers.*", True),
    "sequential": (mlp, ["2", "3", "4"], False),
}


def batch(generator: torch.Generator, size: int = 64) -> tuple[Tensor, Tensor]:
    x = torch.randn(size, 6, 4, generator=generator)
    return x, (x[:, :, 0].sum(1) > 0).long() + (x[:, :, 1].sum(1) > 0).long()


def held_out(batches: int = 3) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(99)
    return [batch(generator) for _ in range(batches)]


@pytest.fixture(scope="module")
def theirs():
    """Two seeds of each kind, trained by a loop that knows nothing of walkback."""
    found: dict[str, list[nn.Module]] = {}
    for kind, (make, _, _) in KINDS.items():
        for seed in (0, 1):
            torch.manual_seed(seed)
            model = make()
            optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
            generator = torch.Generator().manual_seed(seed)
            for _ in range(40):
                x, y = batch(generator)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            found.setdefault(kind, []).append(model)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_untouched_third_party_model_is_judged(theirs, kind):
    _, blocks, residual = KINDS[kind]
    found = wb.audit(theirs[kind], held_out(), blocks, residual=residual, name=kind, frozen=[0.40, 0.41])
    (subject,) = found.subjects
    assert isinstance(found, Audit)
    assert found.valid is None
    assert found.controls == []
    assert subject.name == kind
    assert subject.accuracy.n == 2
    assert subject.accuracy.mean > 0.6
    assert finding(subject, "scale").outcome == (PASSES if residual else OPEN)  # a plain net is held against its init
    assert finding(subject, "reference").outcome == PASSES
    assert (finding(subject, "depth").outcome, subject.verdict) == (OPEN, OPEN)
    assert "Not here: shallow, bp and frozen of bp" in finding(subject, "depth").says
    assert subject.notes == [
        f"seeds 0 and 1: 3 of 3 blocks seen; features taken by: {'mean' if residual else 'as is'}",
        "seeds 0 and 1: autograd's gradient agrees with finite differences of the loss (64 directional derivatives)",
    ]
    assert Audit.from_plain(found.as_dict()) == found


@pytest.mark.parametrize(
    "given",
    [0.4, np.float32(0.4), torch.tensor(0.4), [0.4, 0.4], (0.4, 0.4), np.array([0.4, 0.4]), {0: 0.4, 1: 0.4}],
    ids=["number", "numpy's", "torch's", "list", "tuple", "array", "table"],
)
def test_property_baselines_in_any_shape_say_the_same(theirs, given):
    options = {"accuracy": [0.70, 0.71], "frozen": given, "bp": 0.72, "frozen_bp": [0.41, 0.42]}
    (subject,) = wb.audit(theirs["sequential"], held_out(1), ["2", "3"], **options).subjects
    depth = finding(subject, "depth")
    assert (depth.outcome, round(depth.value, 6)) == (OPEN, 0.305), "two seeds, and a number, show nothing"
    alone, by_seed = re.search(
        r"without a spread: (.*?)(?:\. Given by seed, not measured here: (.*))?\.$", depth.says
    ).groups()
    assert by_seed == "frozen_bp" if alone == "bp and frozen" else (alone, by_seed) == ("bp", "frozen and frozen_bp")
    assert (alone == "bp and frozen") == (np.ndim(given) == 0 and not isinstance(given, dict))


def test_accuracies_by_seed_are_paired_by_seed(theirs):
    models = dict(zip((42, 7), theirs["sequential"], strict=True))
    accuracy, frozen = {7: 0.5, 42: 0.8}, {42: 0.6, 7: 0.3}
    (subject,) = wb.audit(models, held_out(1), ["2", "3"], accuracy=accuracy, frozen=frozen).subjects
    assert finding(subject, "depth").low == finding(subject, "depth").high == 0.2
    (listed,) = wb.audit(models, held_out(1), ["2", "3"], accuracy=[0.8, 0.5], frozen=[0.6, 0.3]).subjects
    assert finding(listed, "depth").value == 0.2
    # further accuracies than models are further seeds, of which nothing else is known
    (more,) = wb.audit(models, held_out(1), ["2", "3"], accuracy=[0.8, 0.5, 0.7], frozen=0.3).subjects
    assert more.accuracy.n == 3
    assert finding(more, "scale").outcome == OPEN
    # and a seed without an accuracy is named
    others = {"shallow": 0.3, "bp": 0.8, "frozen_bp": 0.3}
    (less,) = wb.audit(models, held_out(1), ["2", "3"], accuracy={42: 0.8}, frozen=0.3, **others).subjects
    assert "The accuracy of seed 7" in finding(less, "depth").says


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"blocks": "layer.*"}, UnknownName, "matches 'layer.*'"),
        ({"blocks": []}, BadValue, "no blocks were named"),
        ({"blocks": ["4", "2"]}, BadValue, "in another order"),
        ({"batches": None}, BadValue, "batches is a NoneType"),
        ({"batches": [(torch.zeros(8, 6, 4), torch.zeros(8, 3))]}, BadValue, "not one-hot"),
        ({"model": []}, BadValue, "these are: nothing"),
        ({"model": print}, BadValue, "cannot be audited"),
        ({"model": [mlp(), "mlp"]}, BadValue, "Sequential, str"),
        ({"model": {"first": mlp()}}, BadValue, "'first' is not a seed"),
        ({"model": [mlp(), nn.Sequential(*mlp()[:4], *mlp()[3:])], "blocks": "*"}, BadValue, "number of blocks"),
        ({"accuracy": 61.5}, BadValue, "divide percentages by 100"),
        ({"accuracy": {0: -0.1}}, BadValue, "accuracy has -0.1"),
        ({"accuracy": []}, BadValue, "accuracy is an empty list"),
        ({"accuracy": [None]}, BadValue, "None, which is not a number"),
        ({"frozen": 34.9}, BadValue, "frozen has 34.9"),
        ({"bp": {0: 61.5}}, BadValue, "bp has 61.5"),
        ({"reduction": "max"}, BadValue, "no reduction is named 'max'"),
        ({"credits": lambda *_: [None]}, BadValue, "1 credits for 3 blocks"),
        ({"credits": lambda *_: [torch.zeros(64, 7)] * 3}, BadValue, "(64, 7)"),
    ],
)  # fmt: skip
def test_error_wrong_input_is_told_what_is_wrong_with_it(changes, error, words):
    given = {"model": mlp(), "batches": held_out(1), "blocks": ["2", "3", "4"]} | changes
    model, batches, blocks = (given.pop(key) for key in ("model", "batches", "blocks"))
    with pytest.raises(error) as caught:
        wb.audit(model, batches, blocks, **given)
    assert words in str(caught.value)
    assert "Remedy" in str(caught.value)


# --- the first door: rules, their baselines and their controls ------------------------------------------------------


def toy() -> Dataset:
    """Two bits of four classes: one is linear, the other is a product, which takes trained blocks."""
    generator = torch.Generator().manual_seed(0)

    def split(n: int) -> Split:
        x = torch.randn(n, 6, generator=generator)
        return Split(x, 2 * (x[:, 0] > 0).long() + (x[:, 1] * x[:, 2] > 0).long())

    return Dataset("toy", split(768), split(1024), 4, (6,), (0.0,), (1.0,), False, "toy")


TINY: dict[str, Any] = {
    "data": "toy", "epochs": 10, "lr": 4e-3, "probe_images": 128, "net_options": {"width": 48, "depth": 2},
}  # fmt: skip
WIDE = DEFAULT.but("depth.margin", 0.05)  # what so small a budget can tell apart


@pytest.fixture(scope="module", autouse=True)
def toys():
    """A data set of our own in the catalogue, for as long as this module runs."""
    patch = pytest.MonkeyPatch()
    patch.setitem(DATASETS._things, "toy", Embedded(name="toy", summary="for tests", make=toy, libraries=()))
    dataset = toy()
    for room in (loop, rules_audit):
        patch.setattr(room, "load", lambda *_: dataset)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit of dfa, three seeds; bp was trained before, by `train`. With the events of the audit."""
    out = tmp_path_factory.mktemp("audited")
    train_all(plan(rules=["bp"], seeds=3, **TINY), out, jobs=1)
    events: list[Any] = []
    found = wb.audit_rules(["dfa"], out=out, seeds=3, jobs=1, tell=events.append, thresholds=WIDE, **TINY)
    return out, found, events


def test_the_plans_options_are_the_subjects_own():
    configs = audit_plan(["dfa", "fa"], seeds=1, **TINY, normalize="batch", penalty=0.01)
    how = {c.rule: c.rule_options.get("normalize") for c in configs}
    assert (how["dfa"], how["fa"]) == ("batch", "batch")
    assert how["random"] == plan(rules=["random"], **TINY)[0].rule_options["normalize"]
    assert {c.penalty for c in configs if c.net_options["depth"]} == {0.01}
    assert {c.penalty for c in configs if not c.net_options["depth"]} == {0.0}  # no block to penalise


def test_error_a_plan_that_cannot_be():
    with pytest.raises(BadValue, match="no rule is given"):
        audit_plan([], **TINY)
    with pytest.raises(UnknownName, match="dfaa"):
        audit_plan(["dfaa"], **TINY)
    with pytest.raises(BadValue, match="depth"):
        audit_plan(["dfa"], **TINY | {"net_options": {"depth": 0}})


def test_the_usual_settings_give_way_to_what_is_said():
    few = usual("mnist1d", {})
    assert (few["seeds"], few["net_options"]) == (4, {"width": 128})
    assert few["epochs"] < usual("cifar10", {})["epochs"]
    said = {"seeds": 2, "epochs": 3, "net_options": {"width": 16, "depth": 3}}
    assert usual("mnist1d", said) == {**said, "probe_images": 512}  # fewer are enough, and quicker
    assert usual("cifar10", {}) == {"seeds": 3, "epochs": 100}
    demo = usual("mnist1d-10k", {})
    assert (demo["seeds"], demo["epochs"], demo["net_options"]) == ("auto", 8, {"width": 64})


def test_property_nothing_is_trained_twice(audited):
    out, found, events = audited
    configs = audit_plan(["dfa"], seeds=3, **TINY)
    ends = {event.index: event.kind for event in events if event.kind != "progress"}
    full_bp = {i for i, c in enumerate(configs) if c.rule == "bp" and c.train_last == 2}
    assert {i for i, kind in ends.items() if kind == "reused"} == full_bp
    assert len(find_runs(out)) == len(configs)
    again: list[Any] = []
    assert wb.audit_rules(["dfa"], out=out, seeds=3, jobs=1, tell=again.append, thresholds=WIDE, **TINY) == found
    assert {event.kind for event in again} == {"reused"}


def test_an_audit_whose_controls_behave_is_valid(audited):
    _, found, _ = audited
    assert found.valid, found.says
    assert found.says == "Every control behaved as expected."
    assert [(c.name, c.expected, c.ok) for c in found.controls] == [
        ("bp", BP_EXPECTED, True), ("random", RANDOM_EXPECTED, True), ("a net at init", INIT_EXPECTED, True),
    ]  # fmt: skip
    assert [s.name for s in found.subjects] == ["dfa"]
    assert found.subjects[0].thresholds_version == WIDE.version == found.thresholds.version


def test_a_task_that_asks_for_nothing_makes_the_audit_invalid(audited):
    """The same runs held against a margin that bp itself does not reach: then nothing can be judged."""
    out, _, _ = audited
    beyond = WIDE.but("depth.margin", 0.5)
    found = wb.audit_rules(["dfa", "bp"], out=out, seeds=3, jobs=1, thresholds=beyond, **TINY)
    assert not found.valid
    assert found.exit_status() == 4
    assert found.says.startswith("This audit is invalid: ")
    assert [s.name for s in found.subjects] == ["dfa", "bp"]
    assert [c.name for c in found.controls if not c.ok] == ["bp"]


def test_a_control_that_misbehaves_is_named_with_what_to_try(audited, monkeypatch):
    out, _, _ = audited
    real = spine.judge

    def judge(evidence, *options):
        less = {k: v for k, v in evidence.baselines.items() if k != "shallow"}
        return real(evidence.changed(baselines=less) if evidence.rule == "bp" else evidence, *options)

    monkeypatch.setattr(spine, "judge", judge)
    found = wb.audit_rules(["dfa"], out=out, seeds=3, jobs=1, thresholds=WIDE, **TINY)
    assert not found.valid
    assert [c.name for c in found.controls if not c.ok] == ["bp"]
    words = f"bp: expected {BP_EXPECTED}, got its gain over the shallow net is not known. Restore the files"
    assert words in found.says


def test_the_control_at_init_passes_and_is_seen_to_fail():
    def at_init(thresholds, **changes):
        (config,) = plan(rules=["dfa"], **TINY | changes)
        init = Training(seed=config.seed, moments=[rules_audit._init(config, None)])
        return control_init([init], config.blocks, config.residual, thresholds, "ours")

    fine = at_init(DEFAULT)
    assert (fine.ok, fine.got) == (True, INIT_EXPECTED)
    strict = at_init(DEFAULT.but("scale.growth", 0.5))
    assert not strict.ok
    assert strict.got.startswith("scale: ")
    assert "Check the net" in validity([strict])
    assert at_init(DEFAULT, net_options={"width": 32, "depth": 2, "skip": False}).got == INIT_EXPECTED


def test_a_bad_net_at_init_stays_bad_in_its_folder(audited, tmp_path):
    """What the audit measured at init is in looks.json, because a run's first snapshot has no precision."""
    out, _, _ = audited
    folder = Path(shutil.copytree(out, tmp_path / "runs"))
    looks = read_looks(folder)
    ((setting, init),) = looks.inits.items()
    assert init.precision is not None
    assert judge_paths(folder, thresholds=WIDE).valid
    write_looks(folder, Looks(inits={setting: init.changed(hidden_norms=[1.0, 1e6, 1e9])}))
    found = judge_paths(folder, thresholds=WIDE)
    assert [control.name for control in found.controls if not control.ok] == ["a net at init"]


def test_error_runs_without_an_end_are_told_with_the_reason(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no such data")

    monkeypatch.setattr(loop, "load", fail)
    with pytest.raises(WalkbackError, match="runs did not finish, first dfa seed 42") as caught:
        wb.audit_rules(["dfa"], out=tmp_path, seeds=1, jobs=1, **TINY)
    assert "no such data" in str(caught.value)


# --- records alone --------------------------------------------------------------------------------------------------


def test_property_records_are_judged_as_the_audit_judged_them(audited):
    out, found, _ = audited
    records = judge_paths(out, thresholds=WIDE)
    assert records.valid
    assert records.controls == found.controls
    by_name = {s.name: s for s in records.subjects}
    assert sorted(by_name) == ["bp", "dfa"]  # random is a control
    assert by_name["dfa"] == found.subjects[0]
    one_by_one = judge_paths(*sorted(find_runs(out), reverse=True), thresholds=WIDE)
    assert {s.name: s for s in one_by_one.subjects} == by_name


def test_property_a_run_without_its_weights_is_judged_the_same(audited, tmp_path):
    out, _, _ = audited
    for path in find_runs(out):
        export_run(path, tmp_path / "sent")
    assert not list((tmp_path / "sent").glob("*/*.safetensors"))
    assert judge_paths(tmp_path / "sent") == judge_paths(out)
    assert judge_paths(tmp_path / "sent", protocol="published") == judge_paths(out, protocol="published")


def pick(out: Path, to: Path, *labels: str) -> Path:
    """A folder with some of the runs."""
    for path in find_runs(out):
        if read_run(path).config.label() in labels:
            shutil.copytree(path, to / path.name)
    return to


def test_a_missing_baseline_is_open_and_may_be_typed_in(audited, tmp_path):
    out, _, _ = audited
    alone = pick(out, tmp_path / "alone", "dfa")
    (found,) = judge_paths(alone).subjects
    assert (finding(found, "depth").outcome, finding(found, "depth").basis) == (OPEN, "missing")
    (typed,) = judge_paths(alone, baselines={"frozen": Baseline.number(0.01)}).subjects
    assert finding(typed, "depth").outcome == OPEN, "however low the number is"
    assert "Typed in, not measured here" in finding(typed, "depth").says
    both = pick(out, tmp_path / "both", "dfa", "dfa k=0", "bp", "bp k=0", "bp shallow")
    (own,) = (s for s in judge_paths(both, baselines={"frozen": Baseline.number(0.01)}).subjects if s.name == "dfa")
    assert finding(own, "depth").value != finding(typed, "depth").value  # a measured one is not replaced
    shutil.rmtree(next(path for path in find_runs(both) if "dfa_k_0-s123" in path.name))
    (lacking,) = (s for s in judge_paths(both).subjects if s.name == "dfa")
    assert finding(lacking, "depth").outcome == OPEN
    assert "seed 123" in finding(lacking, "depth").says


def test_only_baselines_are_judged_as_they_are_or_refused(audited, tmp_path):
    out, _, _ = audited
    (frozen,) = judge_paths(pick(out, tmp_path / "frozen", "dfa k=0")).subjects
    assert frozen.name == "dfa k=0"
    assert frozen.verdict == OPEN
    with pytest.raises(BadValue, match="without a subject"):
        judge_paths(pick(out, tmp_path / "shallow", "bp shallow"))


def test_runs_that_stopped_tore_or_never_began_are_open(audited, tmp_path):
    out, _, _ = audited
    some = pick(out, tmp_path, "dfa", "dfa k=0", "bp", "bp k=0")
    first, second, third = (path for path in find_runs(some) if read_run(path).config.label() == "dfa")
    (first / "result.json").unlink()
    with (second / "snapshots.jsonl").open("a") as file:
        file.write('{"epoch": 7, "st')
    for name in ("snapshots.jsonl", "result.json", "probes.json"):
        (third / name).unlink()
    (frozen,) = (p for p in find_runs(some) if "dfa_k_0-s42-" in p.name)
    (frozen / "result.json").unlink()
    subjects = {s.name: s for s in judge_paths(some).subjects}
    found = subjects["dfa"]
    assert found.verdict == OPEN
    said = " ".join(found.notes)
    assert "is incomplete and was left out" in said
    assert said.count("is not finished; it is judged at its last snapshot") == 2
    assert "the baseline frozen of seed 42 is not finished" in said
    assert subjects["bp"].accuracy.n == 3


@pytest.fixture(scope="module")
def exploding():
    """Settings under which dfa blows its stream up in an epoch or two."""
    return TINY | {"rules": ["dfa"], "lr": 0.1, "epochs": 8}


# --- stopping when a check fires ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fired(tmp_path_factory, exploding):
    out = tmp_path_factory.mktemp("fired")
    (short,), (whole,) = plan(**exploding, stop_when_fired=True), plan(**exploding)
    return out, train(short, out, fired=fired_by), train(whole, out, fired=fired_by)


def test_a_run_ends_where_a_check_fires_says_what_it_saved_and_is_judged_by_it(fired):
    _, short, whole = fired
    assert (short.result.status, whole.result.status) == ("fired", "finished")
    epoch = short.result.epochs
    assert 1 <= epoch < 8
    assert short.result.says.startswith(f"ended at epoch {epoch}: one block's growth is above 50")
    assert short.result.says.endswith(f"; {8 - epoch} of 8 epochs saved")
    assert short.path != whole.path
    assert short.snapshots == whole.snapshots[: epoch + 1]  # the same run, up to there
    assert [bool(fired_by(s)) for s in short.snapshots] == [False] * epoch + [True]
    (found,) = judge_paths(short.path).subjects
    assert found.name == "dfa until fired"
    assert (finding(found, "scale").outcome, found.verdict) == (FIRES, OPEN), "a symptom decides nothing"
    assert finding(found, "scale").says in found.symptoms
    assert found.first_fired["scale"].epochs == {"42": epoch}
    assert finding(found, "depth").outcome != FIRES  # it did not come to its end


def test_property_a_fired_run_is_the_same_bits_after_a_stop_and_after_it_lost_its_end(fired, tmp_path, exploding):
    """Stopped at step 7; and killed after the last checkpoint, before its result was written: it has fired already."""
    _, short, _ = fired
    (config,) = plan(**exploding, stop_when_fired=True)
    count = iter(range(1000))
    with pytest.raises(Stopped):
        train(config, tmp_path, fired=fired_by, should_stop=lambda: next(count) >= 7)
    assert files_of(train(config, tmp_path, fired=fired_by).path) == files_of(short.path)
    for name in ("result.json", "probes.json"):
        (tmp_path / short.path.name / name).unlink()
    assert files_of(train(config, tmp_path, fired=fired_by).path) == files_of(short.path)


# --- logs that others left ------------------------------------------------------------------------------------------


LOGS: dict[str, Any] = {
    "cls": {"dfa_log": [{"epoch": 3, "hidden_norms_cls": [1.0, 20.0, 1999.0], "acc_eval": 0.3,
                         "bp_grad_per_sample_l2_med": [1e-6, 1e-8, 1e-9]}]},
    "single": {"config": {"method": "sb", "L": 4, "seed": 42}, "final_test_acc": 0.2,
               "log": [{"epoch": 1, "h_L_norm": 4e8, "h_0_norm": 9.0, "g_2_norm": 1e-9, "acc_eval": 0.19}]},
}  # fmt: skip


@pytest.fixture
def logs(tmp_path):
    """What is said of each is in tests/golden/oracle/logs.txt."""
    for name, log in LOGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(log))
    return tmp_path


def test_folders_and_logs_are_judged_together(audited, logs):
    out, _, _ = audited
    apart = judge_paths(out).subjects + judge_paths(logs / "single.json").subjects
    assert judge_paths(logs / "single.json", out).subjects == apart


def test_logs_of_several_seeds_are_one_subject_and_copies_are_not(logs):
    for seed in (1, 2):
        changed = LOGS["single"] | {"config": LOGS["single"]["config"] | {"seed": seed}}
        (logs / f"single{seed}.json").write_text(json.dumps(changed))
    (joined,) = judge_paths(*(logs / f"single{end}.json" for end in ("", 1, 2))).subjects
    assert joined.accuracy.n == 3
    copies = judge_paths(logs / "cls.json", logs / "cls.json").subjects
    assert [s.accuracy.n for s in copies] == [1, 1]


def test_property_half_a_character_in_a_name_can_still_be_written(logs):
    (logs / "half.json").write_text('{"\\ud800_log": [{"epoch": 1, "acc_eval": 0.5}]}')
    written = judge_paths(logs / "half.json").write(logs)
    assert json.loads(written.read_text())["subjects"][0]["name"] == "?"

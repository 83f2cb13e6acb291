"""The figures that the protocol was published with: claims to test, typed in from the paper and nowhere else.

Hao, Wan, Zhai, "What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, Reference
Validity, and Depth Utility", arXiv:2606.21126, and its earlier drafts. Unless it says otherwise: ResMLP d=256 L=4,
CIFAR-10, 100 epochs, gradients of a batch-mean loss over N = 128. Keys are rules; `dfa k=0` is the net whose blocks
stay at init while DFA trains the rest. What begins with EARLIER is ours: quick trainings, made before this tool was.
"""

from typing import Literal, NamedTuple

CITATION = (
    "Hao, Wan, Zhai: *What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, "
    "Reference Validity, and Depth Utility*, arXiv:2606.21126"
)

SEEDS = 3


class MeanStd(NamedTuple):
    """A mean and its standard deviation (ddof = 1) over three seeds; None: published without one."""

    mean: float
    std: float | None = None

    def __str__(self) -> str:
        """As it is printed.

        >>> str(MeanStd(0.615, 0.004)), str(MeanStd(0.585))
        ('0.615 ± 0.004', '0.585')
        """
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


class SizeRange(NamedTuple):
    """A size that is published as a range, or about; `words` as printed."""

    low: float
    high: float
    words: str

    def __str__(self) -> str:
        return self.words


class Number(NamedTuple):
    """A number without a spread; `shape`: how it is printed."""

    value: float
    shape: str = ".3f"
    form: Literal["points", "cosine"] = "points"

    def __str__(self) -> str:
        return f"{self.value:{self.shape}}"


class Bound(NamedTuple):
    """A size that some nets have at least (`above`) or at most; `whose`: which nets."""

    value: float
    above: bool
    whose: str

    def __str__(self) -> str:
        return f"{self.whose}: {'≥' if self.above else '≤'} {self.value:g}"


class GainRange(NamedTuple):
    """A gain in accuracy that is published as a range, without a spread."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.low:+.1f} to {100 * self.high:+.1f}"


class Direction(NamedTuple):
    """A statement that a gain in accuracy lies above (+1) or below (−1) `than`."""

    sign: int
    than: float = 0.0


class AtBatch(NamedTuple):
    """A gradient's norm and the N of the batch-mean loss it was measured with."""

    norm: float
    batch: int

    def at(self, batch: float) -> float:
        """This gradient in a mean over `batch` samples: ‖g‖ goes with 1/N.

        >>> round(AtBatch(9e-7, 2048).at(128), 9)
        1.44e-05
        """
        return self.norm * self.batch / batch


Figure = MeanStd | SizeRange | Number | Bound | GainRange | Direction
"""What can be published; its kind says how ours is compared with it (`report.agreement.compare`)."""


# The main audit: accuracy, ‖h_L‖, ‖g_L‖ and verdict of every method, three seeds.
ACCURACY = {
    "bp": MeanStd(0.615, 0.004),
    "fa": MeanStd(0.401, 0.009),
    "ep": MeanStd(0.316, 0.037),
    "dfa": MeanStd(0.306, 0.008),
    "cb": MeanStd(0.289, 0.031),
    "sb": MeanStd(0.205, 0.039),
    "dfa k=0": MeanStd(0.349, 0.003),
}
LAST_HIDDEN = {
    "bp": SizeRange(200, 200, "~200"),
    "fa": SizeRange(1e5, 1e5, "~1e5"),
    "ep": SizeRange(3e3, 8e3, "3e3–8e3"),
    "dfa": SizeRange(4e8, 5e8, "4–5e8"),
}
LAST_GRADIENT = {
    "bp": SizeRange(3.7e-4, 3.7e-4, "3.7e-4"),
    "fa": SizeRange(8.9e-7, 8.9e-7, "8.9e-7"),
    "ep": SizeRange(1e-4, 2e-4, "1–2e-4"),
    "dfa": SizeRange(4.2e-9, 4.2e-9, "4.2e-9"),
}
VERDICTS = {
    "bp": "holds",
    "fa": "D2 does not fire",
    "ep": "holds",
    "dfa": "D1, D2, D3 fire",
    "cb": "D1, D2, D3 fire",
    "sb": "D1, D2, D3 fire",
}
UTILITY = {"accuracy": 0, "accuracy, Γ": 0, "the full protocol": 3}
"""Decision utility: how many of the five methods beside BP are walked back on such evidence."""

# The same audit by layer (l = 0 … L) and by block (l = 0 … L−1), one seed.
HIDDEN = {"bp": (255.0, 226.0, 211.0, 205.0, 203.0)}
GRADIENTS = {
    "bp": (4.4e-4, 4.7e-4, 4.8e-4, 4.5e-4, 3.7e-4),
    "fa": (1.8e-5, 1.2e-6, 8.9e-7, 8.9e-7, 8.9e-7),
    "dfa": (4.4e-7, 4.2e-9, 4.2e-9, 4.2e-9, 4.2e-9),
}
COSINES = {"bp": (1.0, 1.0, 1.0, 1.0), "fa": (0.016, 0.072, -0.085, 0.997), "dfa": (0.400, 0.001, -0.0004, -0.002)}
"""DFA's cosines are published for d = 512."""
GAMMA = {"bp": 1.0, "fa": 0.250, "dfa": 0.100}

# How DFA's stream grows, and what the thresholds were calibrated on.
DFA_STREAM = {0: 9.0, 5: 1e6, 100: 5e8}
"""‖h_L‖ after so many epochs."""
HEALTHY_GROWTH, FAILED_GROWTH = 11.0, 694.0
"""The largest growth over one block: of healthy nets late in training at most, of failed ones at least."""
HEALTHY_GROWTH_VIT = 25.0
"""At most, early in a ViT, whose cls token starts small."""
HEALTHY_GRADIENT, FAILED_GRADIENT = 1.0e-4, 4.2e-9
"""‖g_L‖ at N = 128: of healthy nets at least, of failed ones at most."""

# Temporal replay: the first epoch at which each seed's growth exceeded 50 (D1) and its ‖g_L‖ fell below 1e-7 (D2).
FIRST_GROWTH: dict[str, tuple[int, ...]] = {"dfa": (8, 11, 8), "bp": ()}
FIRST_FLOOR: dict[str, tuple[int, ...]] = {"dfa": (4, 4, 3), "bp": ()}
"""Empty: never. Without the terminal norm DFA's D1 fires later, and D2 never."""
VIT_FIRST_FLOOR = 3
"""The epoch by which D2 has fired of DFA in a ViT."""
SAVED = 0.96
"""The share of the epochs saved by stopping DFA at the first firing, at no loss of accuracy."""

# The logs that the replay was made from do not say their N. Their sizes do: those of the audit, at N = 128, are eight
# times larger. So the dates above are crossings at N = 1024, and so, most likely, is FA's ‖g_L‖.
LOG_BATCH = 1024
LOG_GRADIENT = {"bp": SizeRange(3e-5, 5e-5, "3–5e-5")}
LOG_INIT_GRADIENT = SizeRange(1e-3, 1e-3, "1e-3")

# The penalty λ = 1e-2, 30 epochs: accuracy without and with it; DFA's norms and deep cosine with it.
PENALTY = 1e-2
PENALTY_EPOCHS = 30
PENALTY_WITHOUT = {"dfa": MeanStd(0.301, 0.006), "bp": MeanStd(0.585, 0.001), "cb": MeanStd(0.21), "sb": MeanStd(0.213)}
PENALTY_WITH = {
    "dfa": MeanStd(0.360, 0.002), "bp": MeanStd(0.532, 0.007), "cb": MeanStd(0.360, 0.004), "sb": MeanStd(0.453, 0.003),
}  # fmt: skip
PENALTY_HIDDEN = SizeRange(4e4, 4e4, "4e4")
PENALTY_GRADIENT = AtBatch(9e-7, 2048)
PENALTY_DEEP_COSINE = Number(0.15, "+.2f", "cosine")
PENALTY_LONG = MeanStd(0.363, 0.001)
"""DFA with the same penalty, 100 epochs."""

# The depth ladder: what it ends at, and how far bp climbs from k = 0 to k = L (d=256 L=4 and d=512 L=2).
LADDER_ANCHORS = {"bp": 0.617, "fa": 0.402, "dfa": 0.301, "dfa k=0": 0.349}
LADDER_CLIMB = GainRange(0.22, 0.23)

# A net at random init, medians over 256 test images (the norms: of the audit's own images).
IDENTITY_BRANCH = SizeRange(0.096, 0.100, ".096–.100")
IDENTITY_MOVED = SizeRange(0.197, 0.197, ".197")
IDENTITY_COSINE = SizeRange(0.981, 0.981, ".981")
INIT_HIDDEN = SizeRange(8.7, 8.7, "8.7")
INIT_GRADIENT = SizeRange(8e-3, 8e-3, "8e-3")

# Controls: a net at random init does no better than chance, and neither D1 nor D2 fires. Of random labels, of a net
# without residual connection (its W2 drawn with the std below) and of random credit no figure is published.
PLAIN_DOWN_STD = 0.5

# Not published: quick trainings of seed 42, made before this tool, whose records are not kept.
EARLIER_ACCURACY = {"bp": 0.613, "fa": 0.416, "dfa": 0.297, "dfa k=0": 0.348, "bp k=0": 0.384}
EARLIER_HIDDEN = {"bp": (255.0, 228.0, 214.0, 207.0, 200.0)}
EARLIER_FA_SAMPLE, EARLIER_FA_SAMPLE_EPOCH = 0.21, 10
"""FA with its credit normalised by sample: the accuracy at that epoch."""
EARLIER_FA_BATCH = 0.44
"""FA with its credit normalised over the batch."""

"""The figures that the protocol was published with: claims to test, typed in from the paper and nowhere else.

Hao, Wan, Zhai, "What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, Reference
Validity, and Depth Utility", arXiv:2606.21126. ResMLP d=256 L=4, CIFAR-10, 100 epochs, three seeds.
"""

CITATION = (
    "Hao, Wan, Zhai: *What Accuracy and Gradient Cosine Miss: Evaluating Feedback Alignment via Scale Stability, "
    "Reference Validity, and Depth Utility*, arXiv:2606.21126"
)

ACCURACY = {"bp": (0.615, 0.004), "fa": (0.401, 0.009), "dfa": (0.306, 0.008), "dfa k=0": (0.349, 0.003)}
"""Mean and standard deviation (ddof = 1) over three seeds."""

LAST_HIDDEN = {"bp": "~200", "fa": "~1e5", "dfa": "4–5e8"}
LAST_GRADIENT = {"bp": 3.7e-4, "fa": 8.9e-7, "dfa": 4.2e-9}
"""At the last hidden state, gradients of a batch-mean loss over N = 128."""

GRADIENTS = {
    "bp": (4.4e-4, 4.7e-4, 4.8e-4, 4.5e-4, 3.7e-4),
    "fa": (1.8e-5, 1.2e-6, 8.9e-7, 8.9e-7, 8.9e-7),
    "dfa": (4.4e-7, 4.2e-9, 4.2e-9, 4.2e-9, 4.2e-9),
}
HIDDEN = {"bp": (255.0, 226.0, 211.0, 205.0, 203.0)}
COSINES = {"bp": (1.0, 1.0, 1.0, 1.0), "fa": (0.016, 0.072, -0.085, 0.997), "dfa": (0.400, 0.001, -0.0004, -0.002)}
"""One seed; DFA's cosines are published for d = 512."""

GAMMA = {"bp": 1.0, "fa": 0.250, "dfa": 0.100}
FIRST_GROWTH = {"dfa": "8 / 11 / 8", "bp": "never"}
FIRST_FLOOR = {"dfa": "4 / 4 / 3", "bp": "never"}
"""First epochs at which one block's growth exceeded 50, and ‖g_L‖ fell below 1e-7 (three seeds)."""

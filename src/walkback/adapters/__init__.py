"""Adapters: `wb.watch` in other people's loops (Lightning, Hugging Face), and its measurements in other formats.

One file each. A library is imported when its adapter is made; walkback itself does not require it.
"""

from walkback.adapters.lightning import lightning_callback
from walkback.adapters.transformers import transformers_callback
from walkback.adapters.writers import csv_writer, tensorboard_writer

__all__ = ["csv_writer", "lightning_callback", "tensorboard_writer", "transformers_callback"]

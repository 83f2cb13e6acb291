"""The sections of the reproduction page, a file for each group of them; `walkback_paper.reproduction` joins them."""

"""Somebody's own model and own loop: measured, and trained with frozen blocks, by backprop and by noise.

Nothing is judged here.
"""

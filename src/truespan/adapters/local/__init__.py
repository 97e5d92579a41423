"""The model on this machine: its files, its vectors and its token counts."""

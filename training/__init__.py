"""The recipe of the reading model: data, training on one GPU, export and figures.

Owns: the checks of hand-written questions, training rows, the network, its export and its figures.
Does not own: the texts that are learned from (a folder of data), and how the engine reads.
Must hold: no document is in two of training, calibration and judging; what is measured are the
weights that ship.
"""

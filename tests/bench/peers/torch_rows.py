"""Rows of a .npy file by a DataLoader, in their order or shuffled. Prints one line of JSON: processor seconds of a batch.

    torch_rows.py FILE file|shuffled
"""
import json
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

BATCH = 256

torch.set_num_threads(1)
rows = TensorDataset(torch.from_numpy(numpy.load(sys.argv[1], mmap_mode="c")))
loader = DataLoader(rows, BATCH, shuffle=sys.argv[2] == "shuffled")
sum(1 for _ in loader)  # the file is in memory then
begun = time.process_time()
batches = sum(1 for _ in loader)
print(json.dumps({"s": (time.process_time() - begun) / batches}))

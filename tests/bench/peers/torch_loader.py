"""Rows a second of a DataLoader in one process, and tokens of Hugging Face's tokenizers on one thread. Prints one line of JSON.

    torch_loader.py csv FILE | text FILE VOCABULARY | pictures FILE
"""
import csv
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

BATCH, PLACES = 128, 128


class Numbers(Dataset):
    def __init__(self, path):
        self.rows = torch.from_numpy(np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return self.rows[row]


class Texts(Dataset):
    def __init__(self, path, vocabulary):
        from tokenizers import BertWordPieceTokenizer
        self.tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=False)
        self.tokenizer.enable_truncation(PLACES)
        self.tokenizer.enable_padding(length=PLACES)
        with open(path, encoding="utf-8", newline="") as file:
            self.texts = [row["text"] for row in csv.DictReader(file)]
        begin = time.perf_counter()
        self.tokenizer.encode_batch(self.texts)
        self.tokens_s = time.perf_counter() - begin

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, row):
        encoding = self.tokenizer.encode(self.texts[row])
        return torch.tensor(encoding.ids, dtype=torch.int32), torch.tensor(encoding.attention_mask, dtype=torch.float32)


class Pictures(Dataset):
    def __init__(self, path):
        data = np.fromfile(path, dtype=np.uint8).reshape(-1, 3073)
        self.labels, self.pictures = torch.from_numpy(data[:, 0].astype(np.int32)), torch.from_numpy(data[:, 1:].reshape(-1, 3, 32, 32).copy())
        self.mean, self.deviation = torch.tensor([0.49, 0.48, 0.45]).reshape(3, 1, 1), torch.tensor([0.2, 0.2, 0.2]).reshape(3, 1, 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        padded = torch.nn.functional.pad(self.pictures[row], (4, 4, 4, 4))
        y, x, flip = torch.randint(0, 9, (1,)).item(), torch.randint(0, 9, (1,)).item(), torch.rand(1).item() < 0.5
        part = padded[:, y:y + 32, x:x + 32]
        if flip:
            part = part.flip(-1)
        return (part.to(torch.float32) / 255 - self.mean) / self.deviation, self.labels[row]


def main():
    torch.set_num_threads(1)
    begin = time.perf_counter()
    data = {"csv": Numbers, "text": Texts, "pictures": Pictures}[sys.argv[1]](*sys.argv[2:])
    figures = {"open_s": time.perf_counter() - begin - getattr(data, "tokens_s", 0)}
    begin = time.perf_counter()
    rows = sum(len(batch if sys.argv[1] == "csv" else batch[0]) for batch in DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True))
    print(json.dumps({**figures, "rows": rows, "first_s": time.perf_counter() - begin, **({"tokens_s": data.tokens_s} if hasattr(data, "tokens_s") else {})}))


main()

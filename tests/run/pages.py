"""Pages of reports (docs/report.md), for the tests that read their data and those that open them in a browser: nets, and what a page has in it."""
import json
import os
import re

import harness

# A convolution whose height is split: each rank needs rows of its neighbours, and parts are not equal.
WINDOWS = """import "nn.dsl";
net windows {
    input x : f32[2, 3, 19, 8];
    input t : f32[2, 4, 19, 8];
    k = conv2d(x, 4, 3, padding = 1) shard ((1, 1, 4, 1), (1, 1, 1, 1));
    loss mse(conv2d(relu(k), 4, 3, padding = 1) shard ((1, 1, 2, 1), (1, 1, 1, 1)), t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); steps = 2; }
"""
# A pipeline: ranks of three stages run different steps.
STAGES = """import "nn.dsl";
net stages(batch = 24, dim = 16) {
    input x : f32[batch, dim];
    input t : f32[batch, dim];
    h = x;
    for i in 0..6 { h = relu(dense(h, dim)); }
    loss mse(h, t);
}
train { optimizer = sgd(lr = 0.1); data = normal(seed = 1); micro_batches = 4; steps = 30; }
parallel { stages = 3; search = sharding_propagation; }
"""
# Tables that lie on one rank each.
TABLES = """cell table(index, rows, dim) {
    param weight : f32[rows, dim] = normal(0.1);
    return embedding(weight, index);
}
net tables(batch = 32, rows = 100, dim = 8) {
    input category : i32[batch, 6];
    input label    : f32[batch, dim];
    sum = label * 0;
    for i in 0..6 {
        row = table(category[:, i], rows, dim) shard { weight = at(i % 4); };
        sum = sum + row;
    }
    loss mse(tanh(sum), label);
}
train { data = uniform(seed = 1); optimizer = sgd(lr = 0.1); steps = 2; }
parallel { search = sharding_propagation; }
"""


def column(data, n):
    """Of one number for all rows, an array, one without what comes again, or differences of any of these."""
    if isinstance(data, int):
        return [data] * n
    if isinstance(data, list):
        return data
    numbers, at = [], 0
    if "repeats" in data:
        packed = data["repeats"]
        while len(numbers) < n:
            numbers += packed[at + 1:at + 1 + packed[at]]
            at += 1 + packed[at]
            if len(numbers) < n:
                for _ in range(packed[at + 1]):
                    numbers.append(numbers[-packed[at]])
                at += 2
        assert at == len(packed) and len(numbers) == n
        return numbers
    for difference in column(data["differences"], n):
        at += difference
        numbers.append(at)
    return numbers


def rows(table):
    """A table as a list of rows, their fields in the order of its columns."""
    n, columns = table["rows"], []
    for name, data in table.items():
        if name == "rows":
            continue
        if isinstance(data, dict) and "lengths" in data:
            lengths, begin, lists = column(data["lengths"], n), 0, []
            members = column(data["members"], sum(lengths))
            for length in lengths:
                lists.append(members[begin:begin + length])
                begin += length
            columns.append(lists)
        else:
            columns.append(column(data, n))
    assert all(len(each) == n for each in columns), {name: len(each) for name, each in zip(list(table)[1:], columns)}
    return [list(row) for row in zip(*columns)]


def read(data):
    """The data with its tables as lists of rows."""
    if isinstance(data, dict):
        return rows(data) if "rows" in data and isinstance(data["rows"], int) else {key: read(value) for key, value in data.items()}
    return [read(value) for value in data] if isinstance(data, list) and data and isinstance(data[0], dict) else data


def elements(page):
    """id -> the data of a page's elements."""
    return {name: read(json.loads(text)) for name, text in re.findall(r'^<script type="application/json" id="(\w+)">(.*?)</script>$', page, re.M | re.S)}


class Pages(harness.Case):
    def page(self, source, ranks, *options):
        """The page of a net as text, and --stats=json of the same plan, net.plan."""
        command = harness.compiling(source, "--ranks", str(ranks), "-o", self.path("net.plan"), "--report", self.path("net.html"), "--stats=json", *options, cwd=self.folder)
        result = self.ok(harness.run(command, cwd=self.folder))
        return self.read("net.html").decode(), json.loads(result.out)

    def report(self, source, ranks, *options):
        """The plan's data, and what --stats=json says."""
        page, stats = self.page(source, ranks, *options)
        return elements(page)["plan"], stats

#!/usr/bin/env python3
"""Makes torch.json with PyTorch: ten steps' losses of small nets of nn.dsl's layers, from the same starting values, in double precision, and the parameters behind them.

    python3 tests/run/layers/with_torch.py            # writes it
    python3 tests/run/layers/with_torch.py --check    # fails where PyTorch now says otherwise

NETS is what ../layers.py compiles. Numbers are made by numbers(), so that none needs to be kept."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "torch.json")
BATCH, CLASSES, STEPS, LR, MOMENTUM = 8, 4, 10, 0.25, 0.5

# name: (shape of a row of x, statements between x and the classes' linear, which takes `last`)
NETS = {
    "lstm": ([6, 5], "layer = lstm(x, 7); last = layer[:, -1];"),
    "gru": ([6, 5], "layer = gru(x, 7); last = layer[:, -1];"),
    "every_place": ([5, 3], "layer = lstm(x, 4); second = gru(layer, 6); last = mean(second, axes = 1);"),
    "group_norm": ([4, 9], "conv = conv1d(x, 6, 3, stride = 2, padding = 1); norm = group_norm(conv, 3); last = mean(relu(norm), axes = 2);"),
    "depthwise": ([4, 7, 6], "conv = conv2d(x, 4, 3, padding = 1, groups = 4); norm = group_norm(conv, 2); wide = conv2d(relu(norm), 8, 3, stride = 2, padding = 1, groups = 4);"
                             " last = global_avg_pool(tanh(wide));"),
    "heads": ([5, 6], "seen = multihead_attention(x, x, x, 2, causal = true); mixed = multihead_attention(seen, x, x + seen, 3); last = mean(mixed, axes = 1);"),
    "experts": ([12, 6], "mixed, even, lost = moe(x, 4, 5, k = 2, capacity = 7); last = mean(x + mixed, axes = 1) * even;"),
    "switch": ([9, 6], "mixed, even, lost = moe(x, 3, 5); last = mean(x + mixed, axes = 1) * even;"),
}
EXPERTS = {"experts": (4, 2, 7), "switch": (3, 1, 4)}  # how many, choices of a place, places of a row that an expert takes


def numbers(seed, n):
    """In [-1, 1) with 24 bits each, by a linear congruential generator."""
    state, made = (seed * 0x9E3779B97F4A7C15 + 0x1234567) % 2 ** 64, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        made.append((state >> 40) / 2 ** 23 - 1)
    return made


def product(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def starting_values(shapes):
    """Every parameter is a half of numbers, so that none is where its gradient would hide a mistake; weights of norms are about 1."""
    return {name: [0.5 * a + name.lower().endswith("norm.weight") for a in numbers(seed, product(shape))] for seed, (name, shape) in enumerate(sorted(shapes.items()))}


def rows(step, shape):
    return numbers(100 + step, BATCH * product(shape))


def labels(step):
    return [(3 * row + step) % CLASSES for row in range(BATCH)]


def experts(name, torch):
    """A mixture of experts, one place after the other."""
    nn, (many, k, capacity) = torch.nn, EXPERTS[name]

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(6, many, bias=False)
            self.w_up, self.w_down = nn.Parameter(torch.empty(many, 6, 5)), nn.Parameter(torch.empty(many, 5, 6))

        def forward(self, x):
            share = self.router(x).softmax(dim=-1)
            gate, expert = share.topk(k, dim=-1)
            if k > 1:
                gate = gate / gate.sum(dim=-1, keepdim=True)
            rows, chosen = [], torch.zeros(many, dtype=x.dtype)
            for b in range(x.shape[0]):
                places, taken = [torch.zeros(6, dtype=x.dtype) for _ in range(x.shape[1])], [0] * many
                for choice in range(k):
                    for place in range(x.shape[1]):
                        e = int(expert[b, place, choice])
                        chosen[e] += 1
                        taken[e] += 1
                        if taken[e] <= capacity:
                            places[place] = places[place] + gate[b, place, choice] * ((x[b, place] @ self.w_up[e]).relu() @ self.w_down[e])
                rows.append(torch.stack(places))
            return torch.stack(rows), many * (chosen / chosen.sum() * share.mean(dim=(0, 1))).sum()

    return Mixture()


def modules(name, torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            if name in ("lstm", "gru"):
                self.layer = getattr(nn, name.upper())(5, 7, batch_first=True)
                self.fc = nn.Linear(7, CLASSES)
            elif name in EXPERTS:
                self.mixed, self.fc = experts(name, torch), nn.Linear(6, CLASSES)
            elif name == "heads":
                self.seen, self.mixed, self.fc = nn.MultiheadAttention(6, 2, batch_first=True), nn.MultiheadAttention(6, 3, batch_first=True), nn.Linear(6, CLASSES)
            elif name == "every_place":
                self.layer, self.second, self.fc = nn.LSTM(3, 4, batch_first=True), nn.GRU(4, 6, batch_first=True), nn.Linear(6, CLASSES)
            elif name == "group_norm":
                self.conv, self.norm, self.fc = nn.Conv1d(4, 6, 3, 2, 1), nn.GroupNorm(3, 6), nn.Linear(6, CLASSES)
            else:
                self.conv, self.norm, self.wide = nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.GroupNorm(2, 4), nn.Conv2d(4, 8, 3, 2, 1, groups=4)
                self.fc = nn.Linear(8, CLASSES)

        def forward(self, x):
            if name in ("lstm", "gru"):
                return self.fc(self.layer(x)[0][:, -1])
            if name in EXPERTS:
                mixed, even = self.mixed(x)
                return self.fc((x + mixed).mean(dim=1) * even)
            if name == "heads":
                behind = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
                seen = self.seen(x, x, x, attn_mask=behind, need_weights=False)[0]
                return self.fc(self.mixed(seen, x, x + seen, need_weights=False)[0].mean(dim=1))
            if name == "every_place":
                return self.fc(self.second(self.layer(x)[0])[0].mean(dim=1))
            y = self.norm(self.conv(x)).relu()
            return self.fc(y.mean(dim=2) if name == "group_norm" else self.wide(y).tanh().mean(dim=(2, 3)))

    return Net().double()


def of(torch, **parts):
    """A module of these parts."""
    module = torch.nn.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


# samples/bert_base.dsl with these numbers, nothing dropped: (name, value)
BERT = {"batch": 4, "places": 6, "dim": 12, "heads": 3, "layers": 2, "words": 11, "most": 8, "classes": 3, "dropped": 0}


def bert_inputs(step):
    """token, kind, seen, label; at least the first place of each sequence is seen."""
    n, places = BERT["batch"], BERT["places"]
    token = [(5 * k + 3 * step + k * k) % BERT["words"] for k in range(n * places)]
    seen = [int(k % places < 1 + (k // places + step) % places) for k in range(n * places)]
    return token, [int(k % places > 2) for k in range(n * places)], seen, [(row + step) % BERT["classes"] for row in range(n)]


def bert_module(torch):
    """Hugging Face's BertForSequenceClassification, with its names, of PyTorch's functions (Devlin et al. 2019)."""
    nn, dim, heads = torch.nn, BERT["dim"], BERT["heads"]

    def linear(n, out):
        return nn.Linear(n, out)

    def norm():
        return nn.LayerNorm(dim, eps=1e-12)

    def layer():
        attention = of(torch, self=of(torch, query=linear(dim, dim), key=linear(dim, dim), value=linear(dim, dim)), output=of(torch, dense=linear(dim, dim), LayerNorm=norm()))
        return of(torch, attention=attention, intermediate=of(torch, dense=linear(dim, 4 * dim)), output=of(torch, dense=linear(4 * dim, dim), LayerNorm=norm()))

    embeddings = of(torch, word_embeddings=nn.Embedding(BERT["words"], dim), position_embeddings=nn.Embedding(BERT["most"], dim), token_type_embeddings=nn.Embedding(2, dim), LayerNorm=norm())
    net = of(torch, bert=of(torch, embeddings=embeddings, encoder=of(torch, layer=nn.ModuleList(layer() for _ in range(BERT["layers"]))), pooler=of(torch, dense=linear(dim, dim))),
             classifier=linear(dim, BERT["classes"]))

    def forward(token, kind, seen):
        e = net.bert.embeddings
        x = e.LayerNorm(e.word_embeddings(token) + e.token_type_embeddings(kind) + e.position_embeddings.weight[:token.shape[1]])
        for block in net.bert.encoder.layer:
            parts = [getattr(getattr(block.attention, "self"), part)(x).unflatten(-1, (heads, -1)).transpose(1, 2) for part in ("query", "key", "value")]
            context = nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen[:, None, None, :]).transpose(1, 2).flatten(2)
            x = block.attention.output.LayerNorm(block.attention.output.dense(context) + x)
            hidden = nn.functional.gelu(block.intermediate.dense(x))
            x = block.output.LayerNorm(block.output.dense(hidden) + x)
        return net.classifier(net.bert.pooler.dense(x[:, 0]).tanh())

    return net.double(), forward


# samples/gpt2.dsl, llama_tiny.dsl and mixtral_tiny.dsl with these numbers, nothing dropped: (name, value)
GPT = {"batch": 8, "places": 6, "dim": 12, "heads": 3, "layers": 2, "words": 11, "most": 8}
LLAMA = {"batch": 8, "places": 6, "dim": 16, "heads": 4, "groups": 2, "hidden": 12, "layers": 2, "words": 11}
MIXTRAL = {**LLAMA, "experts": 4, "k": 2, "balanced": 0.0}


def text_of(sizes, step):
    """word, next: places of a text and those behind them."""
    n = sizes["batch"] * sizes["places"]
    text = [(7 * k + 3 * step + k * k // 5) % sizes["words"] for k in range(n + 1)]
    return text[:-1], text[1:]


def gpt_module(torch):
    """Hugging Face's GPT2LMHeadModel, with its names, of PyTorch's functions (Radford et al. 2019)."""
    nn, dim, heads = torch.nn, GPT["dim"], GPT["heads"]

    class Conv1D(nn.Module):
        def __init__(self, n, out):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.empty(n, out)), nn.Parameter(torch.empty(out))

        def forward(self, x):
            return x @ self.weight + self.bias

    def block():
        return of(torch, ln_1=nn.LayerNorm(dim), attn=of(torch, c_attn=Conv1D(dim, 3 * dim), c_proj=Conv1D(dim, dim)), ln_2=nn.LayerNorm(dim),
                  mlp=of(torch, c_fc=Conv1D(dim, 4 * dim), c_proj=Conv1D(4 * dim, dim)))

    blocks = nn.ModuleList(block() for _ in range(GPT["layers"]))
    net = of(torch, transformer=of(torch, wte=nn.Embedding(GPT["words"], dim), wpe=nn.Embedding(GPT["most"], dim), h=blocks, ln_f=nn.LayerNorm(dim)))

    def forward(word):
        t = net.transformer
        x = t.wte(word) + t.wpe.weight[:word.shape[1]]
        for b in t.h:
            parts = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in b.attn.c_attn(b.ln_1(x)).split(dim, dim=-1)]
            x = x + b.attn.c_proj(nn.functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))
            x = x + b.mlp.c_proj(nn.functional.gelu(b.mlp.c_fc(b.ln_2(x)), approximate="tanh"))
        return t.ln_f(x) @ t.wte.weight.T

    return net.double(), forward


def llama_mlp(torch, linear):
    """The parts of a feed-forward layer by their names, and what they do."""
    dim, hidden = LLAMA["dim"], LLAMA["hidden"]
    return (lambda: {"mlp": of(torch, gate_proj=linear(dim, hidden), up_proj=linear(dim, hidden), down_proj=linear(hidden, dim))},
            lambda l, y: l.mlp.down_proj(torch.nn.functional.silu(l.mlp.gate_proj(y)) * l.mlp.up_proj(y)))


def mixtral_moe(torch, linear):
    """MixtralSparseMoeBlock (Jiang et al. 2024): each place takes the results of its k most likely experts, by their probabilities scaled to the sum 1; none is dropped."""
    nn, dim, hidden = torch.nn, MIXTRAL["dim"], MIXTRAL["hidden"]

    def moe():
        experts = nn.ModuleList(of(torch, w1=linear(dim, hidden), w2=linear(hidden, dim), w3=linear(dim, hidden)) for _ in range(MIXTRAL["experts"]))
        return {"block_sparse_moe": of(torch, gate=linear(dim, MIXTRAL["experts"]), experts=experts)}

    def forward(l, x):
        weight, chosen = torch.topk(l.block_sparse_moe.gate(x).softmax(dim=-1), MIXTRAL["k"], dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        y = torch.zeros_like(x)
        for e, expert in enumerate(l.block_sparse_moe.experts):
            of_e = (weight * (chosen == e)).sum(dim=-1, keepdim=True)
            y = y + of_e * expert.w2(nn.functional.silu(expert.w1(x)) * expert.w3(x))
        return y

    return moe, forward


def llama_module(torch, feed=llama_mlp, base=10000.0):
    """Hugging Face's LlamaForCausalLM, with its names, of PyTorch's functions (Touvron et al. 2023); MixtralForCausalLM is the same with another feed-forward layer and base."""
    nn, dim, heads, groups = torch.nn, LLAMA["dim"], LLAMA["heads"], LLAMA["groups"]
    width = dim // heads

    def linear(n, out):
        return nn.Linear(n, out, bias=False)

    fed, feed_forward = feed(torch, linear)

    def norm():
        return nn.RMSNorm(dim, eps=1e-5)

    def layer():
        attention = of(torch, q_proj=linear(dim, dim), k_proj=linear(dim, groups * width), v_proj=linear(dim, groups * width), o_proj=linear(dim, dim))
        return of(torch, input_layernorm=norm(), self_attn=attention, post_attention_layernorm=norm(), **fed())

    net = of(torch, model=of(torch, embed_tokens=nn.Embedding(LLAMA["words"], dim), layers=nn.ModuleList(layer() for _ in range(LLAMA["layers"])), norm=norm()),
             lm_head=linear(dim, LLAMA["words"]))

    def turned(x):
        """Rotary positions: elements k and k + width / 2 of place p by the angle p base^(-2 k / width)."""
        angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * base ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        low, high = x.chunk(2, dim=-1)
        return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], dim=-1)

    def forward(word):
        x = net.model.embed_tokens(word)
        for l in net.model.layers:
            y = l.input_layernorm(x)
            q, k, v = (part(y).unflatten(-1, (-1, width)).transpose(1, 2) for part in (l.self_attn.q_proj, l.self_attn.k_proj, l.self_attn.v_proj))
            k, v = (part.repeat_interleave(heads // groups, dim=1) for part in (turned(k), v))
            x = x + l.self_attn.o_proj(nn.functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True).transpose(1, 2).flatten(2))
            x = x + feed_forward(l, l.post_attention_layernorm(x))
        return net.lm_head(net.model.norm(x))

    return net.double(), forward


def mixtral_module(torch):
    return llama_module(torch, mixtral_moe, 1000000.0)


def trained(net, loss_of, torch):
    """Losses of some steps from the starting values, and the parameters behind them."""
    shapes = {key: list(value.shape) for key, value in net.named_parameters()}
    starts = starting_values(shapes)
    with torch.no_grad():
        for key, value in net.named_parameters():
            value.copy_(torch.tensor(starts[key], dtype=torch.float64).reshape(value.shape))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    losses = []
    for step in range(STEPS):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "shapes": shapes, "after": {key: value.detach().flatten().tolist() for key, value in net.named_parameters()}}


def bert(torch):
    net, forward = bert_module(torch)

    def loss_of(step):
        token, kind, seen, label = map(torch.tensor, bert_inputs(step))
        rows = [x.reshape(BERT["batch"], BERT["places"]) for x in (token, kind, seen.bool())]
        return torch.nn.functional.cross_entropy(forward(*rows), label)

    return trained(net, loss_of, torch)


def language_model(torch, sizes, module):
    """With the logits of the first row of the first batch."""
    net, forward = module(torch)
    logits = []

    def loss_of(step):
        word, behind = (torch.tensor(x).reshape(sizes["batch"], sizes["places"]) for x in text_of(sizes, step))
        y = forward(word)
        logits.extend(y[0].flatten().tolist() if step == 0 else [])
        return torch.nn.functional.cross_entropy(y.flatten(0, 1), behind.flatten())

    return {**trained(net, loss_of, torch), "logits": logits}


def compute(name, torch):
    net, shape = modules(name, torch), NETS[name][0]

    def loss_of(step):
        x = torch.tensor(rows(step, shape), dtype=torch.float64).reshape([BATCH] + shape)
        return torch.nn.functional.cross_entropy(net(x), torch.tensor(labels(step)))

    return trained(net, loss_of, torch)


def main():
    import torch
    made = {"torch": torch.__version__.split("+")[0], "nets": {**{name: compute(name, torch) for name in NETS}, "bert": bert(torch), "gpt": language_model(torch, GPT, gpt_module),
                                                                    "llama": language_model(torch, LLAMA, llama_module), "mixtral": language_model(torch, MIXTRAL, mixtral_module)}}
    if "--check" in sys.argv:
        with open(TABLE, encoding="utf-8") as file:
            kept = json.load(file)
        for name, of in made["nets"].items():
            if any(abs(a - b) > 1e-9 for a, b in zip(of["losses"], kept["nets"][name]["losses"], strict=True)):
                sys.exit("%s: PyTorch %s gives %s" % (name, made["torch"], of["losses"]))
        return
    with open(TABLE, "w", encoding="utf-8") as file:
        lines = ["%s: %s" % (json.dumps(name), json.dumps(of)) for name, of in made["nets"].items()]
        file.write('{"torch": %s, "nets": {\n%s\n}}\n' % (json.dumps(made["torch"]), ",\n".join(lines)))


if __name__ == "__main__":
    main()
